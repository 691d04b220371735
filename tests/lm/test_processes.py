"""Two real processes on gloo that train together."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import fmean

import pytest
import torch

from rl.base.errors import Interrupted, UsageError
from rl.base.records import TrainingResult, silent
from rl.config import RewardModelConfig, TrainingConfig
from rl.config.training_job import TrainingJob
from rl.lm import checkpoints, processes
from rl.training import dpo, fitting, grpo, kto, mpo, reward_model, sft
from rl.training.agent import train as agent
from rl.training.ppo import train as ppo
from tests.training import agents, test_grpo, test_mpo, two_processes
from tests.training.agent import test_programs
from tests.training.conftest import SMALL, Listener, Row, job, mixed_rows, polite_rows, weights
from tests.training.ppo import test_train as test_ppo
from tests.training.test_kto import labelled_rows

pytestmark = pytest.mark.learn


def stopped_and_resumed(method: str, folder: Path, made: Callable[..., TrainingJob], steps: int = 2) -> TrainingResult:
    """Of two processes, the first of which is told to stop after some steps, and that go on."""
    with pytest.raises(Interrupted, match="stopped by a test"):
        two_processes.train(method, made(), stop_at=steps)
    assert checkpoints.newest_complete(folder / "run") == folder / "run" / f"checkpoint-{steps}"
    return two_processes.train(method, made(resume=True))


def test_processes_that_would_share_a_gpu_are_refused(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "3")
    monkeypatch.setattr("torch.cuda.device_count", lambda: 2)
    with pytest.raises(UsageError, match="3 processes need a GPU each, and there are 2 here: give --num-processes 2"):
        processes.join(cpu=False)


def test_two_processes_that_stop_and_go_on_have_the_losses_of_one(tiny_base: Path, tmp_path: Path):
    options = {"lora_dropout": 0.0, "epochs": 2.0}
    alone = dpo.train(job(tiny_base, tmp_path / "one", **options), silent)
    result = stopped_and_resumed("dpo", tmp_path, partial(job, tiny_base, tmp_path, **options), steps=4)
    assert result.loss_history == pytest.approx(alone.loss_history, abs=1e-4)
    assert near(result, alone)
    assert not (tmp_path / "run" / ".unfinished").exists()


def test_ppo_in_two_processes_that_stop_and_go_on_has_the_losses_of_one(tiny_base: Path, tmp_path: Path):
    """Always the likeliest token: chance is another in each process."""
    options = {**test_ppo.FEW, "top_k": 1, "temperature": 1.0}
    alone = ppo.train(test_ppo.job(tiny_base, tmp_path / "one", **options), silent)
    result = stopped_and_resumed("ppo", tmp_path, partial(test_ppo.job, tiny_base, tmp_path, **options))
    for metric in ("loss", "value_loss", "reward", "kl", "grad_norm", "completion_length"):
        assert result.series(metric) == pytest.approx(alone.series(metric), abs=1e-4)
    assert near(result, alone)


def test_grpo_on_stored_answers_in_two_processes_has_the_losses_of_one(answering_base: Path, tmp_path: Path):
    made = partial(
        test_grpo.job, answering_base, rows=test_grpo.stored_rows(), rollouts="offline", scorer=None, lora_dropout=0.0
    )
    alone = grpo.train(made(tmp_path / "one"), silent)
    result = two_processes.train("grpo", made(tmp_path / "two"))
    assert result.loss_history == pytest.approx(alone.loss_history, abs=1e-4)
    assert near(result, alone)


def test_episodes_in_two_processes_that_stop_and_go_on_have_the_losses_of_one(answering_base: Path, tmp_path: Path):
    """Always the likeliest token: chance is another in each process."""
    options = {"environment": agents.world("InTurn"), "top_p": 0.01, "lora_dropout": 0.0, "max_steps": 3}
    listener = Listener()
    alone = agent.train(agents.job(answering_base, tmp_path / "one", **options), listener)
    assert [episode["reward"] for episode in agents.episodes(listener)[:8]] == [0, 1, 0, 1] * 2, (
        "though it says the same"
    )
    result = stopped_and_resumed("agent", tmp_path, partial(agents.job, answering_base, tmp_path, **options))
    for metric in ("loss", "reward", "success", "turns", "kl", "grad_norm", "completion_length"):
        assert result.series(metric) == pytest.approx(alone.series(metric), abs=1e-4)
    assert min(alone.series("grad_norm")) > 1e-4
    assert near(result, alone)


@pytest.mark.slow
def test_programs_with_several_conversations_are_played_in_two_processes(answering_base: Path, tmp_path: Path):
    """Each has conversations of its own, and both as many passes."""
    options = {"environment": test_programs.world(test_programs.SEVERAL), "max_steps": 2, "max_length": 256}
    result = two_processes.train("agent", agents.job(answering_base, tmp_path, test_programs.rows(), **options))
    assert result.steps == 2
    assert all(0 < norm < 100 for norm in result.series("grad_norm"))


def near(left: TrainingResult, right: TrainingResult) -> bool:
    first, second = weights(left), weights(right)
    return first.keys() == second.keys() and all(torch.allclose(first[name], second[name], atol=1e-4) for name in first)


def test_kto_learns_in_two_processes(tiny_base: Path, tmp_path: Path):
    """Each compares the rows of its own half of a forward pass, so the losses are near those of one and not the same."""
    alone = kto.train(job(tiny_base, tmp_path / "one", labelled_rows(), lora_dropout=0.0), silent)
    result = two_processes.train("kto", job(tiny_base, tmp_path / "two", labelled_rows(), lora_dropout=0.0))
    assert result.loss_history == pytest.approx(alone.loss_history, abs=0.05)


def test_mpo_learns_in_two_processes(tiny_base: Path, tmp_path: Path):
    """Each has passes of its own, so the rows of a step are others than those of one process; an epoch's are the same."""
    rows = test_mpo.mixed_rows()
    alone = mpo.train(test_mpo.job(tiny_base, tmp_path / "one", rows, lora_dropout=0.0), silent)
    result = two_processes.train("mpo", test_mpo.job(tiny_base, tmp_path / "two", rows, lora_dropout=0.0))
    assert len(result.loss_history) == len(alone.loss_history) == 6
    assert fmean(result.loss_history[:3]) == pytest.approx(fmean(alone.loss_history[:3]), rel=0.05)


def test_sft_learns_in_two_processes(tiny_base: Path, tmp_path: Path):
    rows = [test_mpo.pair(row) for row in polite_rows()]
    alone = sft.train(job(tiny_base, tmp_path / "one", rows, lora_dropout=0.0), silent)
    result = two_processes.train("sft", job(tiny_base, tmp_path / "two", rows, lora_dropout=0.0))
    assert result.loss_history == pytest.approx(alone.loss_history, abs=0.05)


@pytest.mark.parametrize("rows", [polite_rows, mixed_rows])
def test_a_reward_model_learns_in_two_processes(tiny_base: Path, tmp_path: Path, rows: Callable[[], list[Row]]):
    config = RewardModelConfig().with_overrides({**SMALL, "lora_dropout": 0.0})
    jobs = [replace(job(tiny_base, tmp_path / name, rows()), config=config) for name in ("one", "two")]
    alone, result = reward_model.train(jobs[0], silent), two_processes.train("reward_model", jobs[1])
    assert result.loss_history == pytest.approx(alone.loss_history, abs=1e-3)
    assert (result.weights_dir / "adapter_model.safetensors").exists()


@pytest.mark.parametrize("engine", ["FSDP", "DEEPSPEED"])
def test_ppo_is_not_cut_into_pieces(tiny_base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engine: str):
    monkeypatch.setenv(f"ACCELERATE_USE_{engine}", "true")
    with pytest.raises(UsageError, match="ppo keeps whole copies of its networks"):
        ppo.train(test_ppo.job(tiny_base, tmp_path), silent)


def test_a_step_is_shared_by_rows_or_by_passes_or_refused(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    config = TrainingConfig(batch_size=4, gradient_accumulation=3)
    rows, passes = "per_device_train_batch_size", "gradient_accumulation_steps"
    assert fitting.batches(config) == {rows: 2, passes: 3}
    assert fitting.batches(replace(config, batch_size=3, gradient_accumulation=4)) == {rows: 3, passes: 2}
    with pytest.raises(UsageError, match="neither batch_size 3 nor gradient_accumulation 1 can be shared by 2"):
        fitting.batches(replace(config, batch_size=3, gradient_accumulation=1))


def test_the_parts_of_all_processes_are_the_whole(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("WORLD_SIZE", "3")
    parts = []
    for rank in range(3):
        monkeypatch.setenv("RANK", str(rank))
        parts.append(list(processes.own_part(8)))
    assert [number for part in parts for number in part] == list(range(8))
    assert [processes.share(rows) for rows in (8, 3, 1)] == [2, 1, 1]
