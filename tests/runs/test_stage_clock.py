"""What a run's parts took, by the stages that it tells of."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from rl.hardware import Part
from rl.runs import stage_clock
from rl.runs.stage_clock import Costs, StageClock


@pytest.fixture
def moment(monkeypatch):
    """The time, which tests move; half of it is computed."""
    now = SimpleNamespace(seconds=0.0)
    monkeypatch.setattr("rl.runs.stage_clock.time.monotonic", lambda: now.seconds)
    monkeypatch.setattr(stage_clock, "_cpu_seconds", lambda: now.seconds / 2)
    monkeypatch.setattr(stage_clock, "leaf", lambda path: SimpleNamespace(peak_memory=lambda: 12345))
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
    (tmp_path / stage_clock.FILE).write_text(text)
    with pytest.raises((ValueError, TypeError)):
        Costs.read(tmp_path)
