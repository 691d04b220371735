"""``report.png``: there when matplotlib is, and no reason to fail when it is not."""

import builtins
import random
from pathlib import Path

import pytest

from rl.base.records import TrainingResult
from rl.runs.run import draw_report
from tests.training.conftest import Listener


def result(steps: int = 60, **metrics: float) -> TrainingResult:
    dice = random.Random(1)
    history = tuple({name: value + dice.random() for name, value in metrics.items()} for _ in range(steps))
    return TrainingResult(Path("adapter"), steps, 0.5, {}, 90.0, history)


def size(path: Path) -> tuple[int, int]:
    data = path.read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    return int.from_bytes(data[16:20]), int.from_bytes(data[20:24])


@pytest.mark.parametrize("steps", [1, 2, 60])
def test_a_picture_has_a_chart_for_each_metric_there_is(tmp_path, steps):
    pytest.importorskip("matplotlib")
    listener = Listener()
    draw_report(result(steps, loss=1.0), tmp_path / "one.png", "one", listener)
    draw_report(
        result(steps, loss=1.0, kl=2.0, grad_norm=1.0, reward=0.2, reward_std=0.1),
        tmp_path / "four.png",
        "four",
        listener,
    )
    assert size(tmp_path / "one.png")[0] < size(tmp_path / "four.png")[0]
    assert listener.log == ""
    assert sorted(path.name for path in tmp_path.iterdir()) == ["four.png", "one.png"]


def test_a_training_that_logged_nothing_has_no_picture(tmp_path):
    pytest.importorskip("matplotlib")
    listener = Listener()
    draw_report(result(3, epoch=1.0), tmp_path / "report.png", "none", listener)
    assert "there is no report.png: the training logged nothing" in listener.log
    assert list(tmp_path.iterdir()) == []


def test_without_matplotlib_the_log_says_why_there_is_no_picture(tmp_path, monkeypatch):
    import sys

    original = builtins.__import__

    def refuse(name, *arguments, **options):
        if name.partition(".")[0] == "matplotlib":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return original(name, *arguments, **options)

    monkeypatch.delitem(sys.modules, "rl.runs.report.drawing", raising=False)
    monkeypatch.setattr(builtins, "__import__", refuse)
    listener = Listener()
    draw_report(result(loss=1.0), tmp_path / "report.png", "none", listener)
    assert "there is no report.png: the package matplotlib" in listener.log


def test_a_full_disk_does_not_fail_the_run(tmp_path):
    pytest.importorskip("matplotlib")
    listener = Listener()
    draw_report(result(loss=1.0), tmp_path / "missing" / "report.png", "none", listener)
    assert "there is no report.png" in listener.log
