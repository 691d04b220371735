import io

import pytest
from rich.console import Console

from rl.base.errors import Interrupted
from rl.runs.progress import ProgressLine, log_file


def lines(terminal: bool, *events) -> str:
    output = io.StringIO()
    progress = ProgressLine(Console(file=output, force_terminal=terminal, no_color=True, width=120))
    for event, values in events:
        progress(event, values)
    progress.close()
    return output.getvalue()


def step(number: int, **metrics: float) -> tuple[str, dict]:
    return "step", {"step": number, "total_steps": 50, "metrics": metrics}


def test_in_a_log_a_stage_has_its_first_and_last_step_and_not_every_one():
    text = lines(False, ("stage", {"name": "training"}), *(step(n, loss=0.5, accuracy=0.75) for n in range(1, 51)))
    assert "s  training\n" in text
    assert "training: 1/50 loss 0.500 accuracy 0.750" in text
    assert "training: 50/50" in text
    assert "25/50" not in text


def test_on_a_terminal_a_bar_moves():
    text = lines(True, ("stage", {"name": "training"}), step(1, loss=0.5), step(50, loss=0.25))
    assert "50/50" in text
    assert "loss 0.250" in text


def test_what_is_said_is_not_read_as_markup():
    assert "[bold]not markup[/bold]" in lines(False, ("log", {"text": "[bold]not markup[/bold]"}))


def interrupted(path, stage: str) -> None:
    with log_file(path) as log:
        log("stage", {"name": stage})
        raise Interrupted("enough")


def test_a_log_file_is_appended_to_and_tells_what_ended_the_work(tmp_path):
    path = tmp_path / "new" / "log.txt"
    for attempt in ("first", "second"):
        with pytest.raises(Interrupted):
            interrupted(path, attempt)
    text = path.read_text()
    assert text.index("first") < text.index("second")
    assert text.count("stopped: Interrupted: enough") == 2
