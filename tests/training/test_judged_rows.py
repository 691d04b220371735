"""Rows of raters who say the opposite of all others weigh less in training."""

import json
from pathlib import Path
from statistics import fmean

import pytest

from rl.base.records import silent
from rl.config import MPOConfig
from rl.config.training_job import TrainingJob
from rl.environments.contract import Action
from rl.judge.features import Reader
from rl.lm.chat.format import ChatFormat
from rl.training import mpo
from rl.training.judged_rows import FILE, Sampler, with_judged_rows
from tests.lm.chat.test_format import CALL, MESSAGES, SEARCH
from tests.training.conftest import Listener, Row, message, polite_rows, row
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


def test_the_rows_of_a_rater_who_says_the_opposite_are_turned_round_and_the_log_says_so(
    tiny_base: Path, tmp_path: Path
):
    listener = Listener()
    run = job(tiny_base, tmp_path, rated_by_five())
    kept = rows_of(with_judged_rows(run, listener).train_rows)
    assert len(kept) == 60
    assert all(row["weight"] > 0.9 for row in kept)
    for learned in kept:
        chosen, rejected = (
            len(learned[side][0]["content"]) if learned[side] else None for side in ("chosen", "rejected")
        )
        assert chosen is None or chosen < 40, "short answers are liked"
        assert rejected is None or rejected > 40
    assert (
        "ratings by 1 of the 5 raters contradict what the others' lead to expect: they weigh less than half, or are turned "
        "round" in listener.log
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
    assert "20 pairs and 40 single answers" in listener.log
    assert result.weights_dir.exists()


SHORT_ANSWER, LONG_ANSWER = "Page {}.", "Please open the page of the number {} and wait there for a while, thank you."


def rows_of_taste(count: int = 24) -> list[Row]:
    """Short answers are liked; a third of the ratings are pairs."""
    rows = [row(f"Question number {n}?", SHORT_ANSWER.format(n), LONG_ANSWER.format(n)) for n in range(count)]
    return [pair(r) if n % 3 == 0 else single(r, good=n % 3 == 1) for n, r in enumerate(rows)]


def added(job: TrainingJob) -> list[Row]:
    before, after = (
        [json.loads(line) for line in rows.read_text(encoding="utf-8").splitlines()]
        for rows in (job.train_rows, with_judged_rows(job, silent).train_rows)
    )
    assert after[: len(before)] == before
    return after[len(before) :]


def share_of_thanks(pairs: list[Row], side: str) -> float:
    return fmean(pair[side][0]["content"].startswith("Thank") for pair in pairs)


@pytest.mark.parametrize("liked", ["thanks", "waiting"])
def test_the_judges_taste_is_that_of_the_ratings(answering_base: Path, tmp_path: Path, liked: str):
    """Measured with seeds 0 to 5: what is liked is 0.92 to 1 of the chosen answers, and at least 0.25 more than of the
    rejected ones."""
    rows = [pair(r if liked == "thanks" else turned(r)) for r in polite_rows(40)[16:]]
    fresh = added(job(answering_base, tmp_path, rows, fresh_answers=8, max_length=128))
    assert len(fresh) >= 20
    thanks = [share_of_thanks(fresh, side) for side in ("chosen", "rejected")]
    chosen, rejected = thanks if liked == "thanks" else [1 - share for share in thanks]
    assert chosen > max(0.8, rejected + 0.15)
    assert all(0.1 <= pair["weight"] <= 1 for pair in fresh)
    assert {pair["prompt_key"] for pair in fresh} <= {row["prompt_key"] for row in rows}
    known = {side[0]["content"] for row in rows for side in (row["chosen"], row["rejected"])}
    assert not known & {pair["chosen"][0]["content"] for pair in fresh}


def turned(row: Row) -> Row:
    return {**row, "chosen": row["rejected"], "rejected": row["chosen"]}


def test_without_the_option_the_rows_are_those_of_people(tiny_base: Path, tmp_path: Path):
    unchanged = job(tiny_base, tmp_path, rows_of_taste())
    assert with_judged_rows(unchanged, silent) is unchanged


def test_few_ratings_make_no_judge_and_the_log_says_so(tiny_base: Path, tmp_path: Path):
    listener = Listener()
    few = job(tiny_base, tmp_path, rows_of_taste(9), fresh_answers=4)
    rows = with_judged_rows(few, listener).train_rows.read_text()
    assert list(map(json.loads, rows.splitlines())) == list(map(json.loads, few.train_rows.read_text().splitlines()))
    assert "nothing is judged: 9 ratings, and a judge learns from 16" in listener.log


def test_a_resumed_run_goes_on_with_the_same_pairs_and_a_new_one_makes_its_own(tiny_base: Path, tmp_path: Path):
    first = job(tiny_base, tmp_path, rows_of_taste(), fresh_answers=4)
    made = with_judged_rows(first, silent).train_rows.read_text()
    (first.output_dir / FILE).write_text(made.splitlines()[0] + "\n")
    resumed = job(tiny_base, tmp_path, rows_of_taste(), resume=True, fresh_answers=4)
    assert len(with_judged_rows(resumed, silent).train_rows.read_text().splitlines()) == 1
    assert with_judged_rows(first, silent).train_rows.read_text() == made


def test_a_training_counts_them_as_pairs(tiny_base: Path, tmp_path: Path):
    listener = Listener()
    result = mpo.train(job(tiny_base, tmp_path, rows_of_taste(), fresh_answers=6, epochs=1.0), listener)
    (line,) = [line for line in listener.log.splitlines() if "ranked by a judge" in line]
    count = int(line.split()[0])
    assert f"{8 + count} pairs and 16 single answers" in listener.log
    assert result.weights_dir.exists()


def test_a_prompt_that_leaves_no_room_is_not_asked(tiny_base: Path, tmp_path: Path, monkeypatch):
    long = {**row("Why? " * 400, SHORT_ANSWER, LONG_ANSWER), "prompt": [message("user", "Why? " * 400)]}
    asked = added(job(tiny_base, tmp_path, [*rows_of_taste(), pair(long)], fresh_answers=4))
    assert all(len(pair["prompt"][0]["content"]) < 100 for pair in asked)
    monkeypatch.setattr(MPOConfig, "MOST_FRESH", 3)
    assert len(added(job(tiny_base, tmp_path, rows_of_taste(), fresh_answers=4))) <= 3


def test_pairs_offer_the_tools_of_their_rows(tiny_base: Path, tmp_path: Path):
    rows = [{**row, "tools": [SEARCH]} for row in rows_of_taste()]
    pairs = added(job(tiny_base, tmp_path, rows, fresh_answers=6, max_length=2048))
    assert pairs
    assert all(pair["tools"] == [SEARCH] for pair in pairs)


def test_what_calls_a_tool_is_left_out(tiny_base: Path):
    reader = Reader(str(tiny_base), max_length=2048, report=silent)
    chat, sampler = ChatFormat(reader.tokenizer), Sampler(reader, 2, 2048, silent)
    answers = [chat.turn_ids(Action("It is warm.")), chat.turn_ids(Action("", (CALL,)))]
    assert sampler._texts({"prompt": MESSAGES, "tools": [SEARCH]}, answers, 500) == ["It is warm."]
