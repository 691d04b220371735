from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rl.config import ImitationConfig
from rl.config.training_job import TrainingJob
from rl.training import sft
from rl.training.balancing import count_repeats
from tests.training import conftest
from tests.training.conftest import Listener, Row
from tests.training.test_mpo import pair

pytestmark = pytest.mark.learn


def uneven() -> list[Row]:
    """Nine questions of one class, and one of the other."""
    answers = ["cards"] * 9 + ["cash"]
    return [pair(conftest.row(f"Question {number}?", answer, "other")) for number, answer in enumerate(answers)]


def job(base: Path, folder: Path, kind: str = "closed", **overrides: Any) -> TrainingJob:
    config = ImitationConfig().with_overrides({**conftest.SMALL, "epochs": 1.0, "batch_size": 2, **overrides})
    return replace(conftest.job(base, folder, uneven()), config=config, kind=kind)


def test_rows_are_repeated_by_the_square_root_of_how_much_rarer_their_class_is_at_most_four_times() -> None:
    assert count_repeats({"cards": 60, "top-up": 15, "cash": 6, "identity": 3, "exchange": 1}) == {
        "top-up": 2,
        "cash": 3,
        "identity": 4,
        "exchange": 4,
    }


def test_classes_that_are_about_alike_stay_as_they_are() -> None:
    assert count_repeats({"cards": 50, "cash": 23}) == {}
    assert count_repeats({}) == {}


def test_a_rare_class_of_a_closed_set_is_learned_several_times_in_a_pass(tiny_base: Path, tmp_path: Path) -> None:
    listener = Listener()
    result = sft.train(job(tiny_base, tmp_path), listener)
    assert "imitates 10 accepted answers; with rare ones repeated 12 a pass" in listener.log
    assert result.steps == 6


@pytest.mark.parametrize(("kind", "overrides"), [("closed", {"balance_classes": False}), ("structured", {})])
def test_nothing_is_repeated_where_nobody_wants_it_or_the_answers_are_of_no_closed_set(
    tiny_base: Path, tmp_path: Path, kind: str, overrides: dict[str, Any]
) -> None:
    result = sft.train(job(tiny_base, tmp_path, kind, **overrides), Listener())
    assert result.steps == 5


def test_the_trainings_without_a_part_repeat_too(tiny_base: Path, tmp_path: Path) -> None:
    listener, rows = Listener(), uneven()
    folded = replace(job(tiny_base, tmp_path), folds=1, tested=(rows[0]["prompt_key"],))
    sft.train(folded, listener)
    # eight and one are left, and the one is there three times
    first = next(
        number for number, (event, values) in enumerate(listener.events) if "without" in values.get("name", "")
    )
    steps = [values["total_steps"] for event, values in listener.events[first:] if event == "step"]
    assert steps[0] == 6
