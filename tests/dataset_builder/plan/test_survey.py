import json

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from rl.base.errors import NotEnoughData
from rl.collect.feedback.write import compare
from rl.dataset_builder import DataOptions, LengthSpread, freeze, survey
from rl.models import TrainingSet
from tests.conftest import make_trace
from tests.dataset_builder.ratings import rate, rate_prompts, rated


def test_a_survey_counts_what_a_training_set_would_hold(agent, data_dir):
    rate_prompts(agent, 25)
    rated(agent, "Lonely?", "Yes.", 1)
    found = survey(agent, DataOptions())
    frozen = freeze(agent, DataOptions())
    assert (found.train_rows, found.heldout_rows) == (frozen.train_rows, frozen.heldout_rows)
    assert (found.train_prompts, found.heldout_prompts) == (frozen.train_rows, frozen.heldout_rows)
    assert (found.ratings_read, found.ratings_usable) == (51, frozen.feedback_count)
    assert (found.prompts_read, found.prompts) == (26, 25)
    assert dict(found.skipped) == frozen.stats["skipped"]
    assert found.shortage == ""


def test_disputed_widgets_are_counted_by_what_became_of_them(agent, data_dir):
    for fixture, raters in (("bars", "abc"), ("pie", "d")):
        trace = make_trace(agent, "Compare?", f"comparison (hero): {fixture}", details=_widget("comparison", fixture))
        for rater in raters:
            rate(trace, 1 if fixture == "bars" else 0, rater)
    for fixture, value in (("live", 1), ("daily", 0)):
        rate(make_trace(agent, "Compare?", f"kpi (hero): {fixture}", details=_widget("kpi", fixture)), value)
    rate(make_trace(agent, "Compare?", "trend (hero): line", details=_widget("trend", "line")), 0)
    options = DataOptions(pair_type="widget", min_samples=1)
    found, frozen = survey(agent, options), freeze(agent, options)
    assert found.as_dict()["taken"] == frozen.stats["taken"] == {"scenario by a clear majority": 1}
    assert found.as_dict()["skipped"] == {"scenario liked and disliked": 1}
    assert found.train_rows + found.heldout_rows == 1


def _widget(scenario: str, fixture: str) -> dict[str, str]:
    return {"scenario": scenario, "fixture": fixture, "size": "hero"}


def test_a_survey_writes_nothing(agent, data_dir):
    rate_prompts(agent, 12)
    with CaptureQueriesContext(connection) as queries:
        survey(agent, DataOptions())
    assert {query["sql"].split()[0] for query in queries} <= {"SELECT", "DECLARE", "SET"}
    assert not TrainingSet.objects.exists()
    assert list(data_dir.iterdir()) == []


def test_lengths_are_in_characters(agent):
    for number, length in enumerate((4, 8, 16)):
        rated(agent, "q" * (10 * (number + 1)), "g" * length, 1)
        rated(agent, "q" * (10 * (number + 1)), "b" * length, 0)
    found = survey(agent, DataOptions())
    assert found.prompt_lengths == LengthSpread(min=10, median=20, p95=30, max=30)
    assert found.answer_lengths == LengthSpread(min=4, median=8, p95=16, max=16)


def test_without_pairs_there_are_no_lengths(agent):
    found = survey(agent, DataOptions())
    assert found.prompt_lengths is found.answer_lengths is None
    assert (
        found.shortage == "support-chat has no answers yet, and 10 rows to train on are needed: send or import answers"
    )
    make_trace(agent)
    assert "0 ratings of 0 prompts give 0 pairs" in survey(agent, DataOptions()).shortage


def test_answers_without_text_are_no_answers(agent):
    for number, text in enumerate(("", " \n")):
        rated(agent, f"Question {number}?", text, number)
        rated(agent, "Which?", text or "Yes.", 1 - number)
    shortage = survey(agent, DataOptions(min_samples=2)).shortage
    assert "2 prompts have only empty answers: collect answers with text" in shortage
    assert "need no pair in KTO" not in shortage


def test_rows_to_train_on_are_shown(agent):
    rate_prompts(agent, 20)
    shown: list[str] = []
    found = survey(agent, DataOptions(val_split=0.5), see=lambda row: shown.append(row["prompt_key"]))
    assert len(shown) == found.train_rows < 20


def test_contradictions_and_duplicates_are_counted(agent, trace):
    rate(trace, 1, "alice")
    rate(trace, 0, "bob")
    left, right = make_trace(agent, "Which?", "Left."), make_trace(agent, "Which?", "Right.")
    for rater, choice in (("alice", "left"), ("bob", "right")):
        compare(left, right, choice=choice, rater=rater, source="test")
    for value in (1, 1, 0):
        rated(agent, "Again?", "Same." if value else "Other.", value)
    found = survey(agent, DataOptions())
    assert found.contradictions == 3
    assert found.duplicates == 1


def test_a_survey_can_be_written_as_json(agent):
    rate_prompts(agent, 2)
    document = json.loads(json.dumps(survey(agent, DataOptions()).as_dict()))
    assert document["ratings_read"] == 4
    assert document["prompt_lengths"]["median"] == 11


@pytest.mark.parametrize(
    ("ratings", "message"),
    [
        ([("A?", 1), ("B?", 1)], "2 prompts have only liked answers: rate a second answer of them down"),
        ([("A?", 0)], "1 prompt has only disliked answers: rate another answer of them up"),
        ([("A?", 1), ("B?", 0)], "0 pairs, and 10 are needed: about 18 more ratings"),
    ],
)
def test_a_shortage_says_how_much_is_missing_and_where(agent, ratings, message):
    for question, value in ratings:
        rated(agent, question, "Well.", value)
    assert message in survey(agent, DataOptions()).shortage


def test_one_opposite_rating_is_enough_where_many_agree(agent):
    for number in range(5):
        rated(agent, "A?", f"Answer {number}.", 1)
    options = DataOptions(min_samples=5, val_split=0)
    assert "about 1 more rating." in survey(agent, options).shortage
    rated(agent, "A?", "Bad.", 0)
    assert survey(agent, options).shortage == ""


def test_a_shortage_lists_what_was_left_out(agent, data_dir):
    for rater, value in (("alice", 1), ("bob", 0)):
        rate(make_trace(agent, "Torn?", "Maybe.", external_id=rater), value, rater)
    with pytest.raises(NotEnoughData, match="left out: 1 tie between raters, 1 duplicate|left out: 1 duplicate, 1 tie"):
        freeze(agent, DataOptions())


def test_answers_of_one_kind_are_not_recommended_for_another_method(agent):
    for number in range(12):
        rated(agent, f"Question {number}?", "Well.", 1)
    assert "KTO" not in survey(agent, DataOptions()).shortage


def test_a_shortage_points_at_what_needs_no_pairs(agent):
    for number in range(12):
        rated(agent, f"Question {number}?", "Well.", number % 2)
    assert (
        "12 rated answers need no pair in KTO: 'manage.py training_plan' compares"
        in survey(agent, DataOptions()).shortage
    )
