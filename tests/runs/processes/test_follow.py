"""Processes that a launcher starts, and what becomes of them when something goes wrong."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from rl.base.errors import Interrupted, NotEnoughData, TrainingFailed, UsageError
from rl.lm import checkpoints
from rl.runs.processes import follow as launching
from rl.runs.processes.launch import Launch
from tests.ports import reserve_port
from tests.training import test_grpo
from tests.training.conftest import Listener, job
from tests.training.forked_launch import Launcher
from tests.training.ppo import test_train as test_ppo
from tests.training.scorers import BreaksIn, StartsWith
from tests.waiting import until

pytestmark = pytest.mark.learn

TWO = Launch(2)


@pytest.fixture(autouse=True)
def _one_thread(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")


@pytest.fixture
def _forked(monkeypatch: pytest.MonkeyPatch):
    """That module's own launcher alone: others start processes as ever."""
    monkeypatch.setattr(launching, "subprocess", SimpleNamespace(**{**vars(subprocess), "Popen": Launcher}))


@pytest.mark.slow
@pytest.mark.usefixtures("_forked")
def test_two_processes_stop_go_on_and_learn_from_the_answers_that_they_make(answering_base: Path, tmp_path: Path):
    learning = {"epochs": 2.0, "batch_size": 16, "num_generations": 8, "scorer": StartsWith("Thank")}
    with pytest.raises(Interrupted, match="stopped by a test"):
        launching.train("grpo", TWO, test_grpo.job(answering_base, tmp_path, **learning), Listener(stop_at=2))
    newest = checkpoints.newest_complete(tmp_path / "run")
    assert newest is not None
    assert newest.name in ("checkpoint-2", "checkpoint-3"), "they hear of it a step later"
    assert sorted(path.name for path in newest.glob("rng_state*")) == ["rng_state_0.pth", "rng_state_1.pth"]
    listener = Listener()
    result = launching.train("grpo", TWO, test_grpo.job(answering_base, tmp_path, resume=True, **learning), listener)
    assert min(listener.losses) > 2
    assert test_grpo.gain(answering_base, result) > test_grpo.MARGIN
    assert result.series("thank") == result.series("reward")


def test_rewards_that_no_other_process_can_make_are_refused(tiny_base: Path, tmp_path: Path):
    with pytest.raises(UsageError, match="it must be an instance of a dataclass"):
        launching.train("ppo", TWO, test_ppo.job(tiny_base, tmp_path, scorer=lambda trace: None), Listener())


@pytest.mark.slow
@pytest.mark.usefixtures("_forked")
def test_a_reward_that_breaks_on_the_second_machine_is_told_by_its_name(tiny_base: Path, tmp_path: Path):
    port, joined = reserve_port(), []
    for rank in (0, 1):
        settings = {"use_cpu": True, "num_machines": 2, "num_processes": 2, "machine_rank": rank}
        address = {"main_process_ip": "127.0.0.1", "main_process_port": port}
        (tmp_path / f"{rank}.yaml").write_text(json.dumps({**settings, **address}))
    fragile = test_ppo.job(tiny_base, tmp_path, scorer=BreaksIn("1"), **test_ppo.FEW)

    def start_the_other(event: str, values: dict) -> None:
        if "waits for 1 more" in values.get("text", ""):
            there = str(fragile.output_dir / "launch")
            command = [sys.executable, "-m", "rl.runs.processes.join", there, str(tmp_path / "1.yaml")]
            joined.append(Launcher(command, env=os.environ))

    with pytest.raises(TrainingFailed, match="reward fragile: ZeroDivisionError"):
        launching.train("ppo", Launch(accelerate_config=str(tmp_path / "0.yaml")), fragile, start_the_other)
    assert [process.wait(60) for process in joined] == [1]


def instead(monkeypatch: pytest.MonkeyPatch, program: str) -> None:
    """Of the launcher and its processes; it finds the job's folder in ``folder``."""
    start = "import os, sys, pathlib; folder = pathlib.Path(sys.argv[1]); "
    monkeypatch.setattr(Launch, "command", lambda self, folder: [sys.executable, "-c", start + program, str(folder)])


def test_what_a_process_refuses_is_told_in_its_words(tiny_base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    failure = json.dumps({"type": "NotEnoughData", "text": "there is nothing"})
    instead(monkeypatch, f"(folder / 'failure.json').write_text({failure!r}); sys.exit(3)")
    with pytest.raises(NotEnoughData, match="there is nothing"):
        launching.train("dpo", TWO, job(tiny_base, tmp_path), Listener())


def test_the_first_error_is_told_and_not_the_summary_of_the_launcher(
    tiny_base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    said = [
        "Traceback",
        "  line",
        "ValueError: boom",
        "RuntimeError: connection closed",
        "torch.distributed.elastic.Error: x",
    ]
    instead(monkeypatch, f"print({chr(10).join(said)!r}, file=sys.stderr); os.kill(os.getpid(), 9)")
    with pytest.raises(TrainingFailed, match="a training process ended with exit code -9: ValueError: boom"):
        launching.train("dpo", TWO, job(tiny_base, tmp_path), Listener())


def test_one_that_is_left_behind_with_their_output_is_not_waited_for(
    tiny_base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    left = "import subprocess; subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])"
    instead(monkeypatch, f"{left}; sys.exit(1)")
    with pytest.raises(TrainingFailed, match="a training process ended with exit code 1"):
        launching.train("dpo", TWO, job(tiny_base, tmp_path), Listener())


def test_a_process_that_was_killed_is_told_and_not_who_lost_it(
    tiny_base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """``said``: of torchrun, when one of two is killed within a reduction by gloo."""
    said = [
        "RuntimeError: [pair.cc:553] Connection closed by peer [127.0.1.1]:1",
        "  traceback : Signal 15 (SIGTERM) received by PID 1",
        "  traceback : Signal 9 (SIGKILL) received by PID 2",
        "====",
    ]
    instead(monkeypatch, f"print({chr(10).join(said)!r}, file=sys.stderr); sys.exit(1)")
    with pytest.raises(TrainingFailed, match=r"exit code 1: Signal 9 \(SIGKILL\) ended it, .* when memory runs out"):
        launching.train("dpo", TWO, job(tiny_base, tmp_path), Listener())


PARENT = """
import sys
from pathlib import Path
from rl.runs.processes import follow as launching
from rl.runs.processes.launch import Launch
from tests.training.conftest import job
launching.train("dpo", Launch(1), job(Path(sys.argv[1]), Path(sys.argv[2]), epochs=200.0),
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
    until(lambda: not processes_of(tmp_path), every=0.1)


def processes_of(folder: Path) -> list[int]:
    found = []
    for each in psutil.process_iter(["cmdline"]):
        words = each.info["cmdline"] or []
        if any("worker.py" in word for word in words) and str(folder / "run" / "launch") in words:
            found.append(each.pid)
    return found


def test_processes_that_finish_a_long_step_have_the_time_to_save(
    tiny_base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    saved = tmp_path / "run" / "saved"
    event = json.dumps({"event": "step", "values": {}})
    beats = f"for _ in range(12): print({event!r}, flush=True); time.sleep(0.1)"
    instead(monkeypatch, f"import time\n{beats}\nopen({str(saved)!r}, 'w')")
    monkeypatch.setattr(launching, "END_SECONDS", 1.0)
    with pytest.raises(Interrupted, match="stopped by a test"):
        launching.train("dpo", TWO, job(tiny_base, tmp_path), stop_at_the_first_step)
    assert saved.exists()


def stop_at_the_first_step(event: str, values: dict) -> None:
    if event == "step":
        raise Interrupted("stopped by a test")


def test_processes_that_wait_in_silence_can_be_cancelled(
    tiny_base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def cancel(event: str, values: dict) -> None:
        if event == "waiting":
            raise Interrupted("cancelled by a test")

    instead(monkeypatch, "import time; time.sleep(60)")
    monkeypatch.setattr(launching, "END_SECONDS", 0.1)
    with pytest.raises(Interrupted, match="cancelled by a test"):
        launching.train("dpo", TWO, job(tiny_base, tmp_path), cancel)
    assert not (tmp_path / "run" / "launch" / "job.json").exists(), "there is nothing to join"
    assert (tmp_path / "run" / "launch" / "stop").read_text() == "cancelled by a test"
