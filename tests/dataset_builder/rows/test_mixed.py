"""Training sets of all ratings at once, frozen from the database."""

import pytest

from rl.base.errors import NotEnoughData
from rl.collect.feedback.write import compare, correct
from rl.dataset_builder import DataOptions, FileSource, freeze, survey
from rl.dataset_builder.read.reliability import pseudonym
from rl.evaluation.held_out import contrasts
from rl.models import Feedback
from tests.collect.make_command_center import write_files
from tests.conftest import make_trace
from tests.dataset_builder.ratings import all_rows, rate, rated

ONE = DataOptions(min_samples=1, val_split=0)


def texts(row) -> tuple[str | None, str | None]:
    chosen, rejected = (row[name] and row[name][0]["content"] for name in ("chosen", "rejected"))
    return chosen, rejected


def frozen_rows(agent, **options):
    rows = all_rows(freeze(agent, DataOptions(min_samples=1, val_split=0, **options), method="mpo"))
    return {texts(row): row for row in rows}


def test_every_kind_of_rating_becomes_a_row(agent, data_dir):
    rated(agent, "Paired?", "Good.", 1)
    rated(agent, "Paired?", "Bad.", 0)
    rated(agent, "Liked?", "Nice.", 1)
    rated(agent, "Disliked?", "Dull.", 0)
    left, right = make_trace(agent, "Picked?", "Left."), make_trace(agent, "Picked?", "Right.")
    compare(left, right, choice="right", rater="alice", source="test")
    correct(make_trace(agent, "Edited?", "Wrong."), text="Mended.", rater="alice", source="test")
    one, other = make_trace(agent, "Both?", "One."), make_trace(agent, "Both?", "Other.")
    compare(one, other, choice="both_bad", rater="alice", source="test")
    rows = frozen_rows(agent)
    assert set(rows) == {
        ("Good.", "Bad."),
        ("Nice.", None),
        (None, "Dull."),
        ("Right.", "Left."),
        ("Mended.", "Wrong."),
        (None, "One."),
        (None, "Other."),
    }
    assert {row["weight"] for row in rows.values()} == {1.0}


def test_all_feedback_takes_part_and_none_waits_afterwards(agent, data_dir):
    for number in range(6):
        rated(agent, f"Question {number}?", "Fine.", number % 2)
    rated(agent, "Question 0?", "Better.", 1)
    frozen = freeze(agent, ONE, method="mpo")
    assert frozen.feedback_count == frozen.stats["ratings_read"] == 7
    assert (frozen.stats["pair_rows"], frozen.stats["single_rows"]) == (1, 5)
    assert not Feedback.objects.filter(training_set=None).exists()
    assert frozen.stats["skipped"] == {}


@pytest.mark.parametrize(("values", "weight"), [((1, 1, 1, 0), 0.5), ((1, 1, 0), 0.3333), ((1,), 1.0)])
def test_a_single_answer_weighs_what_its_raters_agree_by(agent, data_dir, values, weight):
    trace = make_trace(agent, "Question?", "Answer.")
    for number, value in enumerate(values):
        rate(trace, value, f"rater-{number}")
    rated(agent, "Other?", "Bad.", 0)
    assert frozen_rows(agent)["Answer.", None]["weight"] == pytest.approx(weight, abs=1e-4)


def test_a_score_near_the_middle_weighs_little(agent, data_dir):
    rate(make_trace(agent, "A?", "Rather good."), 0.75, scale="score")
    rate(make_trace(agent, "B?", "Hardly bad."), 0.49, scale="score")
    rows = frozen_rows(agent)
    assert rows["Rather good.", None]["weight"] == 0.5
    assert rows[None, "Hardly bad."]["weight"] == 0.1


def test_a_pair_weighs_what_the_less_sure_side_does(agent, data_dir):
    good = make_trace(agent, "Question?", "Good.")
    for number, value in enumerate((1, 1, 1, 0)):
        rate(good, value, f"rater-{number}")
    rated(agent, "Question?", "Bad.", 0)
    assert frozen_rows(agent)["Good.", "Bad."]["weight"] == 0.5


def votes(row) -> dict[str, bool]:
    return {rater: agrees for rater, agrees, _ in row["votes"]}


def test_a_row_says_who_rated_and_whether_they_agree_with_it(agent, data_dir):
    good, bad = make_trace(agent, "Paired?", "Good."), make_trace(agent, "Paired?", "Bad.")
    for rater, value in (("alice", 1), ("bob", 1), ("carol", 0)):
        rate(good, value, rater)
    rate(bad, 0, "dave")
    compare(good, bad, choice="left", rater="erin", source="test")
    compare(bad, good, choice="left", rater="frank", source="test")
    alone = make_trace(agent, "Alone?", "Dull.")
    for rater, value in (("alice", 0), ("bob", 1), ("carol", 0)):
        rate(alone, value, rater)
    rows = frozen_rows(agent)
    people = ("alice", "bob", "carol", "dave", "erin", "frank")
    agree = dict(zip(people, (True, True, False, True, True, False), strict=True))
    assert votes(rows["Good.", "Bad."]) == {pseudonym(name): agrees for name, agrees in agree.items()}
    about = [vote[2] for vote in rows["Good.", "Bad."]["votes"]]
    assert sorted(about) == ["", "", "chosen", "chosen", "chosen", "rejected"]
    assert votes(rows[None, "Dull."]) == {pseudonym("alice"): True, pseudonym("bob"): False, pseudonym("carol"): True}


def test_a_training_set_holds_no_name_of_a_rater(agent, data_dir):
    rated(agent, "Question?", "Good.", 1, "alice@example.org")
    rated(agent, "Question?", "Bad.", 0, "bob@example.org")
    frozen = freeze(agent, ONE, method="mpo")
    assert "example.org" not in "".join(path.read_text() for path in frozen.directory.iterdir() if path.is_file())


def test_what_nobody_rated_has_no_votes(agent, data_dir):
    rated(agent, "Rated?", "Good.", 1)
    rated(agent, "Rated?", "Bad.", 0)
    make_trace(agent, "Rewarded?", "Fine.", reward=0.9)
    assert frozen_rows(agent)["Fine.", None]["votes"] == []


def test_an_answer_beyond_the_limit_of_pairs_trains_alone(agent, data_dir):
    rated(agent, "Question?", "Bad.", 0)
    for number in range(3):
        rated(agent, "Question?", f"Good {number}.", 1)
    rows = frozen_rows(agent, max_pairs_per_question=1)
    assert len(rows) == 3
    assert sum(rejected is None for _, rejected in rows) == 2


def test_what_is_too_little_is_said_in_the_words_of_single_answers(agent, data_dir):
    rated(agent, "A?", "Yes.", 1)
    with pytest.raises(NotEnoughData, match="give 1 labelled answer, and 10 are needed"):
        freeze(agent, DataOptions(), method="mpo")
    with pytest.raises(NotEnoughData, match="are good, and MPO learns from the difference|is good, and MPO learns"):
        freeze(agent, ONE, method="mpo")


def test_files_give_pairs_alone(agent, data_dir, tmp_path):
    files = write_files(tmp_path, questions=12)
    frozen = freeze(agent, DataOptions(pair_type="both"), FileSource(files.entries, files.ratings), method="mpo")
    assert frozen.stats["single_rows"] == 0
    assert all(None not in texts(row) for row in all_rows(frozen))


def test_the_survey_counts_what_freezing_writes(agent, data_dir):
    for number in range(12):
        rated(agent, f"Question {number}?", "Fine.", number % 2)
    rated(agent, "Question 0?", "Better.", 1)
    counted = survey(agent, ONE, method="mpo")
    frozen = freeze(agent, ONE, method="mpo")
    assert (counted.train_rows, counted.heldout_rows) == (frozen.train_rows, frozen.heldout_rows)
    assert counted.answer_lengths is not None


def test_held_out_rows_are_compared_as_pairs_and_across_prompts(agent, data_dir):
    rated(agent, "Paired?", "Good.", 1)
    rated(agent, "Paired?", "Bad.", 0)
    rated(agent, "Liked?", "Nice.", 1)
    rated(agent, "Disliked?", "Dull.", 0)
    compared = {texts(row): row for row in contrasts("mpo", all_rows(freeze(agent, ONE, method="mpo")))}
    assert set(compared) == {("Good.", "Bad."), ("Nice.", "Dull.")}
    assert compared["Nice.", "Dull."]["rejected_prompt"] == [{"role": "user", "content": "Disliked?"}]
