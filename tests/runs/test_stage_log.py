from pathlib import Path
from types import SimpleNamespace

import pytest

from rl.hardware import Part
from rl.runs import stage_log
from rl.runs.stage_log import Costs, StageClock, StageLog, Stages


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The moment, as both clocks tell it."""
    now = [1000.0]
    monkeypatch.setattr(stage_log.time, "time", lambda: now[0])
    monkeypatch.setattr(stage_log.time, "monotonic", lambda: now[0])
    return now


def step(log: StageLog, number: int, total: int = 21) -> None:
    log("step", {"step": number, "total_steps": total, "metrics": {}})


def test_what_comes_before_the_first_step_is_not_in_the_pace(tmp_path: Path, clock: list[float]) -> None:
    log = StageLog(tmp_path)
    log("stage", {"name": "loading the base model"})
    clock[0] += 2000
    log("stage", {"name": "training"})
    clock[0] += 800
    for number in range(1, 12):
        step(log, number)
        clock[0] += 6
    stages = Stages.read(tmp_path)
    assert stages.names == ("loading the base model", "training")
    assert stages.pace is not None
    assert stages.pace.seconds_left(stages.pace.at) == pytest.approx(60)
    assert stages.pace.seconds_left(stages.pace.at + 4) == pytest.approx(56)


def test_each_stage_has_its_own_pace_and_a_pause_is_in_none(tmp_path: Path, clock: list[float]) -> None:
    log = StageLog(tmp_path)
    log("stage", {"name": "training"})
    step(log, 20)
    log("stage", {"name": "answering as base"})
    assert Stages.read(tmp_path).pace is None
    step(log, 1, 5)
    clock[0] += 100
    log("paused", {"seconds": 90})
    step(log, 2, 5)
    pace = Stages.read(tmp_path).pace
    assert pace is not None
    assert pace.seconds_left(clock[0]) == pytest.approx(30)


def test_a_folder_that_cannot_be_written_does_not_stop_the_run(tmp_path: Path) -> None:
    StageLog(tmp_path / "gone")("stage", {"name": "training"})
    assert Stages.read(tmp_path / "gone") == Stages((), None)


@pytest.fixture
def moment(monkeypatch):
    """The time, which tests move; half of it is computed."""
    now = SimpleNamespace(seconds=0.0)
    monkeypatch.setattr("rl.runs.stage_log.time.monotonic", lambda: now.seconds)
    monkeypatch.setattr(stage_log, "_cpu_seconds", lambda: now.seconds / 2)
    monkeypatch.setattr(stage_log, "leaf", lambda path: SimpleNamespace(peak_memory=lambda: 12345))
    return now


def test_every_stage_counts_to_its_part(moment, tmp_path):
    clock = StageClock()
    for name, seconds in (
        ("preparing data", 1),
        ("waiting for the device", 100),
        ("preparing the rows", 2),
        ("loading the base model", 4),
        ("scoring under the base model", 8),
        ("learning without part 1 of 3", 128),
        ("training", 16),
        ("evaluating", 1),
        ("loading the base model", 4),
        ("scoring base", 32),
        ("fresh answers: base", 64),
        ("scoring new", 32),
        ("exporting GGUF q8_0", 1),
        ("convert", 2),
        ("judging the exported file", 4),
    ):
        clock("stage", {"name": name})
        moment.seconds += seconds
    clock.save(tmp_path)
    costs = Costs.read(tmp_path)
    assert costs.seconds == {
        Part.START: 3,
        Part.LOADING: 8,
        Part.REFERENCE: 8,
        Part.FOLDS: 128,
        Part.STEPS: 16,
        Part.EVALUATION: 65,
        Part.FRESH: 64,
        Part.EXPORT: 7,
    }
    assert costs.cpu_seconds == {part: seconds / 2 for part, seconds in costs.seconds.items()}
    assert costs.peak_memory_bytes == 12345


def test_a_pause_for_requests_is_not_work(moment, tmp_path):
    clock = StageClock()
    clock("stage", {"name": "training"})
    moment.seconds += 30
    clock("paused", {"seconds": 20})
    clock.save(tmp_path)
    assert Costs.read(tmp_path).seconds == {Part.START: 0, Part.STEPS: 10}


def test_a_folder_that_cannot_be_written_ends_no_run(moment, tmp_path):
    StageClock().save(tmp_path / "is not there")


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"seconds": {"steps": "many"}, "cpu_seconds": {}, "peak_memory_bytes": 1}']
)
def test_a_damaged_file_is_refused(tmp_path, text):
    (tmp_path / stage_log.COSTS).write_text(text)
    with pytest.raises((ValueError, TypeError)):
        Costs.read(tmp_path)
