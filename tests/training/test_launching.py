"""Two real processes on gloo, and what becomes of them when something goes wrong."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from rl.config import RewardModelConfig, TrainingConfig
from rl.dataset_builder import DataOptions
from rl.errors import BadFile, Interrupted, TrainingFailed, UsageError
from rl.models import Agent, TrainingRun
from rl.training import checkpoints, dpo, fitting, kto, launching, reward_model
from rl.training import run as runs
from rl.training.launching import Launch
from tests.training.conftest import SMALL, Listener, job, same_weights
from tests.training.test_kto import labelled_rows

TWO = Launch(2)


@pytest.fixture(autouse=True)
def _one_thread(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")


@pytest.mark.slow
def test_two_processes_have_the_losses_of_one(tiny_base: Path, tmp_path: Path):
    one, two = Listener(), Listener()
    options = {"lora_dropout": 0.0, "epochs": 2.0}
    dpo.train(job(tiny_base, tmp_path / "one", **options), one)
    result = launching.train("dpo", TWO, job(tiny_base, tmp_path / "two", **options), two)
    assert list(two.losses) == list(one.losses)
    assert list(two.losses.values()) == pytest.approx(list(one.losses.values()), abs=1e-4)
    assert result.steps == 6
    assert (result.adapter_dir / "adapter_model.safetensors").exists()
    assert not (tmp_path / "two" / "run" / ".unfinished").exists()


@pytest.mark.slow
def test_kto_learns_in_two_processes(tiny_base: Path, tmp_path: Path):
    """Each compares the rows of its own half of a forward pass, so the losses are near those of one and not the same."""
    one, two = Listener(), Listener()
    kto.train(job(tiny_base, tmp_path / "one", labelled_rows(), lora_dropout=0.0), one)
    launching.train("kto", TWO, job(tiny_base, tmp_path / "two", labelled_rows(), lora_dropout=0.0), two)
    assert list(two.losses) == list(one.losses)
    assert list(two.losses.values()) == pytest.approx(list(one.losses.values()), abs=0.05)


@pytest.mark.slow
def test_a_reward_model_learns_in_two_processes(tiny_base: Path, tmp_path: Path):
    one, two = Listener(), Listener()
    config = RewardModelConfig().with_overrides({**SMALL, "lora_dropout": 0.0})
    jobs = [replace(job(tiny_base, tmp_path / name), config=config) for name in ("one", "two")]
    reward_model.train(jobs[0], one)
    result = launching.train("reward_model", TWO, jobs[1], two)
    assert list(two.losses.values()) == pytest.approx(list(one.losses.values()), abs=1e-3)
    assert (result.adapter_dir / "adapter_model.safetensors").exists()


@pytest.mark.django_db
@pytest.mark.parametrize("method", ["grpo", "ppo"])
def test_methods_that_make_answers_train_in_one_process_so_far(agent: Agent, method: str):
    options = runs.RunOptions(data=DataOptions(), num_processes=2)
    with pytest.raises(UsageError, match=f"{method} makes answers while it trains, which works in one process only"):
        runs.create(agent, method_name=method, config=agent.training_config(method), options=options)
    assert not TrainingRun.objects.exists()


@pytest.mark.slow
def test_both_stop_at_the_same_step_and_go_on_as_if_nothing_had_happened(tiny_base: Path, tmp_path: Path):
    whole = launching.train("dpo", TWO, job(tiny_base, tmp_path / "whole"), Listener())
    with pytest.raises(Interrupted, match="stopped by a test"):
        launching.train("dpo", TWO, job(tiny_base, tmp_path), Listener(stop_at=2))
    newest = checkpoints.newest_complete(tmp_path / "run")
    assert newest is not None
    assert sorted(path.name for path in newest.glob("rng_state*")) == ["rng_state_0.pth", "rng_state_1.pth"]
    resumed = launching.train("dpo", TWO, job(tiny_base, tmp_path, resume=True), Listener())
    assert same_weights(resumed, whole)


def test_what_a_process_refuses_is_told_in_its_words(tiny_base: Path, tmp_path: Path):
    broken = job(tiny_base, tmp_path)
    broken.train_rows.write_text("{}\n")
    with pytest.raises((BadFile, TrainingFailed), match="prompt must be a list of messages"):
        launching.train("dpo", TWO, broken, Listener())


def test_a_step_is_shared_by_rows_or_by_passes_or_refused(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    config = TrainingConfig(batch_size=4, gradient_accumulation=3)
    rows, passes = "per_device_train_batch_size", "gradient_accumulation_steps"
    assert fitting.batches(config) == {rows: 2, passes: 3}
    assert fitting.batches(replace(config, batch_size=3, gradient_accumulation=4)) == {rows: 3, passes: 2}
    with pytest.raises(UsageError, match="neither batch_size 3 nor gradient_accumulation 1 can be shared by 2"):
        fitting.batches(replace(config, batch_size=3, gradient_accumulation=1))


def test_a_process_that_dies_is_one_clear_error(tiny_base: Path, tmp_path: Path):
    def kill(event: str, values: dict) -> None:
        if event == "step" and values["metrics"]:
            for each in psutil.Process().children(recursive=True):
                if "worker.py" in " ".join(each.cmdline()) and each.cmdline()[-1].startswith(str(tmp_path)):
                    each.kill()

    with pytest.raises(TrainingFailed, match="a training process ended with exit code"):
        launching.train("dpo", TWO, job(tiny_base, tmp_path, epochs=20.0), kill)
    assert processes_of(tmp_path) == []


PARENT = """
import sys
from pathlib import Path
from rl.training import launching
from tests.training.conftest import job
launching.train("dpo", launching.Launch(2), job(Path(sys.argv[1]), Path(sys.argv[2]), epochs=200.0),
                lambda event, values: print(event, flush=True))
"""


def test_they_end_with_the_process_that_started_them(tiny_base: Path, tmp_path: Path, settings):
    environment = {**os.environ, "PYTHONPATH": str(settings.BASE_DIR)}
    command = [sys.executable, "-c", PARENT, str(tiny_base), str(tmp_path)]
    parent = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment, cwd=settings.BASE_DIR)
    assert parent.stdout is not None
    while parent.stdout.readline() != "step\n":
        assert parent.poll() is None
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    deadline = time.monotonic() + 20
    while processes_of(tmp_path) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert processes_of(tmp_path) == []


def processes_of(folder: Path) -> list[int]:
    found = []
    for each in psutil.process_iter(["cmdline"]):
        words = each.info["cmdline"] or []
        if any("worker.py" in word for word in words) and str(folder / "run" / "launch") in words:
            found.append(each.pid)
    return found


@pytest.mark.parametrize(
    ("values", "told"), [({"processes": 0}, "1 or more"), ({"accelerate_config": "/nowhere"}, "no accelerate")]
)
def test_an_impossible_launch_is_refused(values: dict, told: str):
    with pytest.raises(UsageError, match=told):
        Launch(**values)


def test_an_accelerate_configuration_is_given_to_its_launcher(tmp_path: Path):
    config = tmp_path / "fsdp.yaml"
    config.write_text("distributed_type: FSDP\n")
    command = Launch(4, str(config)).command("worker.py", "folder")
    assert command[1:] == [
        "-m", "accelerate.commands.launch", "--config_file", str(config), "--num_processes", "4", "worker.py", "folder",
    ]  # fmt: skip
