"""Rows of raters who say the opposite of all others weigh less in training."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rl.training import mpo
from rl.training.judged_rows import FILE, with_judged_rows
from tests.training.conftest import Listener, Row, row
from tests.training.test_mpo import job, pair, single

pytestmark = pytest.mark.learn

SHORT, LONG = "Page {}.", "Please open the page of the number {} and wait there for a while, thank you."
TURNED = "rater 2"


def rated_by_five(count: int = 60) -> list[Row]:
    """Short answers are liked, by all raters but one, who says the opposite; a third of the ratings are pairs."""
    rows = []
    for n in range(count):
        rater = f"rater {n % 5}"
        texts = (SHORT.format(n), LONG.format(n))
        better, worse = texts[::-1] if rater == TURNED else texts
        made = row(f"Question number {n}?", better, worse)
        made = pair(made) if n % 3 == 0 else single(made, good=n % 3 == 1)
        rows.append({**made, "votes": [[rater, True]]})
    return rows


def rows_of(path: Path) -> list[Row]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_the_rows_of_a_rater_who_says_the_opposite_are_left_out_and_the_log_says_so(tiny_base: Path, tmp_path: Path):
    listener = Listener()
    run = job(tiny_base, tmp_path, rated_by_five())
    kept = rows_of(with_judged_rows(run, listener).train_rows)
    assert {row["votes"][0][0] for row in kept} == {f"rater {n}" for n in range(5)} - {TURNED}
    assert all(row["weight"] > 0.9 for row in kept)
    assert (
        "ratings by 1 of the 5 raters contradict what the others' lead to expect, and weigh less than half"
        in listener.log
    )


def test_it_can_be_switched_off(tiny_base: Path, tmp_path: Path):
    run = job(tiny_base, tmp_path, rated_by_five(), weigh_raters=False)
    assert with_judged_rows(run, Listener()) is run


def test_rows_of_fewer_than_three_raters_stay_as_they_are(tiny_base: Path, tmp_path: Path):
    rows = [row for row in rated_by_five() if row["votes"][0][0] in ("rater 1", TURNED)]
    run = job(tiny_base, tmp_path, rows)
    assert with_judged_rows(run, Listener()) is run


def test_a_resumed_run_goes_on_with_the_weights_that_it_had(tiny_base: Path, tmp_path: Path):
    run = job(tiny_base, tmp_path, rated_by_five())
    with_judged_rows(run, Listener())
    (run.output_dir / FILE).write_text(json.dumps(rated_by_five()[0]) + "\n")
    resumed = job(tiny_base, tmp_path, rated_by_five(), resume=True)
    assert len(rows_of(with_judged_rows(resumed, Listener()).train_rows)) == 1


def test_a_training_learns_from_what_is_left(tiny_base: Path, tmp_path: Path):
    listener = Listener()
    result = mpo.train(job(tiny_base, tmp_path, rated_by_five(), epochs=1.0), listener)
    assert "16 pairs and 32 single answers" in listener.log
    assert result.weights_dir.exists()
