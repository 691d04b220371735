from __future__ import annotations

from pathlib import Path

import pytest

from rl.runs import stage_log
from rl.runs.stage_log import StageLog, Stages


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
