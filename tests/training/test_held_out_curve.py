"""Right answers on the way: when they are counted, and where they are kept and drawn."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from rl.data_formatter.jsonl import UNSEEN, read_unseen
from rl.training import sft
from rl.training.held_out_curve import Curve, step_at
from tests.training.conftest import Listener
from tests.training.test_sft import classes, cross_fitted

pytestmark = pytest.mark.learn


def test_the_points_of_all_parts_are_added_and_kept_for_a_run_that_goes_on(tmp_path: Path) -> None:
    curve = Curve(tmp_path, goes_on=False)
    curve.add(4, Counter({0.25: 1, 0.5: 1, 0.75: 2, 1.0: 3}))
    curve.add(4, Counter({0.5: 1, 0.75: 2, 1.0: 3}))
    resumed = Curve(tmp_path, goes_on=True)
    assert resumed.at_steps(40) == {10: 0.125, 20: 0.25, 30: 0.5, 40: 0.75}
    assert resumed.describe() == (
        "right answers to 8 prompts, each by an adapter that does not learn from it: "
        "1 at a quarter of the steps, 2 at a half, 4 at three quarters, 6 at the end"
    )
    assert Curve(tmp_path, goes_on=False).at_steps(40) == {}


def test_a_short_training_has_fewer_points() -> None:
    assert [step_at(share, 2) for share in (0.25, 0.5, 0.75, 1.0)] == [1, 1, 2, 2]


def test_a_run_draws_along_its_steps_how_many_held_out_answers_are_right(tiny_base: Path, tmp_path: Path) -> None:
    listener = Listener()
    asked = cross_fitted(tiny_base, tmp_path, epochs=4.0)
    result = sft.train(asked, listener)
    points = {number: step["right"] for number, step in enumerate(result.history, 1) if "right" in step}
    assert set(points) == {3, 6, 9, 12}
    told = {v["step"]: v["metrics"]["right"] for e, v in listener.events if e == "step" and "right" in v["metrics"]}
    assert told == points
    answers = read_unseen(asked.output_dir / UNSEEN)
    accepted = {row["prompt_key"]: row["chosen"][0]["content"] for row in classes()[:6]}
    assert points[12] == sum(answers[key].text.strip() == text for key, text in accepted.items()) / 6
    assert "right answers to 6 prompts" in listener.log


def test_the_trainings_without_a_part_draw_nothing_themselves(tiny_base: Path, tmp_path: Path) -> None:
    listener = Listener()
    sft.train(cross_fitted(tiny_base, tmp_path), listener)
    begins = [number for number, (_, values) in enumerate(listener.events) if values.get("name") == "training"]
    before = [values for event, values in listener.events[: begins[0]] if event == "step"]
    assert before
    assert not any(values["metrics"] for values in before)
