"""Answers that did not end by themselves: disliked they are learned from, never as what to say."""

import pytest

from rl.base.errors import NotEnoughData
from rl.collect.feedback.judged_answers import read_accepted
from rl.collect.feedback.write import compare, correct
from rl.data_formatter.opinions import BROKEN_OFF
from rl.dataset_builder import DataOptions, freeze
from rl.models import Agent, Trace
from rl.models.traces import ended_by_itself, is_broken_off
from tests.conftest import make_trace
from tests.dataset_builder.exporting.exports import exported
from tests.dataset_builder.ratings import all_rows, rate, rated

ONE = DataOptions(min_samples=1, val_split=0)
CUTS = [
    {"complete": False, "error": "the client went away"},
    {"complete": True, "finish_reason": "length"},
    {"complete": True, "finish_reason": "content_filter"},
    {"finish_reason": "MAX_TOKENS"},
    {"finish_reason": "content-filter"},
    {"finish_reason": "error"},
    {"finish_reason": "other"},
    {"finish_reason": "UNKNOWN"},
]


def broken(agent: Agent, question: str, response: str, details=None) -> Trace:
    return make_trace(agent, question, response, details=details or CUTS[1])


@pytest.mark.parametrize(
    "details", [*CUTS, {}, {"complete": True, "finish_reason": "tool_calls"}, {"finish_reason": 7}]
)
def test_the_database_and_the_reader_tell_alike_which_answers_ended_by_themselves(agent, details):
    make_trace(agent, "Q?", "A.", details=details)
    assert Trace.objects.filter(ended_by_itself()).exists() is not is_broken_off(details)


@pytest.mark.parametrize("method", ["kto", "mpo", "sft", "reward_model"])
@pytest.mark.parametrize("details", CUTS)
def test_liked_they_are_left_out_and_counted_and_disliked_they_stay(agent, data_dir, method, details):
    rate(broken(agent, "Liked?", "half", details), 1)
    rate(broken(agent, "Disliked?", "bad half", details), 0)
    rated(agent, "Whole?", "Whole.", 1)
    training_set = freeze(agent, ONE, method=method)
    assert training_set.stats["skipped"][BROKEN_OFF] == 1
    rows = str(all_rows(training_set))
    assert ("'half'" in rows, "bad half" in rows, "Whole." in rows) == (False, True, True)


def test_they_are_chosen_in_no_pair(agent, data_dir):
    rate(broken(agent, "Rated?", "half"), 1)
    rated(agent, "Rated?", "Bad.", 0)
    left, right = broken(agent, "Picked?", "half"), make_trace(agent, "Picked?", "Right.")
    compare(left, right, choice="left", rater="alice", source="test")
    with pytest.raises(NotEnoughData, match=BROKEN_OFF):
        freeze(agent, ONE, method="dpo")


def test_what_was_made_of_one_or_is_better_is_chosen(agent, data_dir):
    correct(broken(agent, "Edited?", "half"), text="Mended.", rater="alice", source="test")
    left, right = broken(agent, "Picked?", "half"), make_trace(agent, "Picked?", "Right.")
    compare(left, right, choice="right", rater="alice", source="test")
    rows = all_rows(freeze(agent, ONE, method="dpo"))
    assert sorted((row["chosen"][0]["content"], row["rejected"][0]["content"]) for row in rows) == [
        ("Mended.", "half"),
        ("Right.", "half"),
    ]


def test_a_text_that_another_answer_ended_with_is_whole(agent, data_dir):
    rate(broken(agent, "Twice?", "Same."), 1)
    rated(agent, "Twice?", "Same.", 1)
    rated(agent, "Other?", "Bad.", 0)
    assert "Same." in str(all_rows(freeze(agent, ONE, method="kto")))


def test_they_are_in_no_group_and_in_no_export_of_what_to_imitate(agent, data_dir, tmp_path):
    Trace.objects.filter(pk=broken(agent, "Q?", "half").pk).update(reward=0.9)
    Trace.objects.filter(pk=make_trace(agent, "Q?", "Good.").pk).update(reward=0.8)
    Trace.objects.filter(pk=make_trace(agent, "Q?", "Bad.").pk).update(reward=0.1)
    groups = all_rows(freeze(agent, ONE, method="grpo"))
    assert "half" not in str(groups)
    assert "Good." in str(groups)
    for form in ("openai", "sharegpt", "reward"):
        assert "half" not in str(exported(agent, form, tmp_path))


def test_they_are_no_accepted_answers(agent):
    rate(broken(agent, "Q?", "ca"), 1)
    rated(agent, "Q?", "cards", 1)
    left, right = broken(agent, "R?", "tra"), make_trace(agent, "R?", "transfers")
    compare(left, right, choice="left", rater="alice", source="test")
    compare(right, broken(agent, "R?", "x"), choice="left", rater="bob", source="test")
    assert {accepted.answer for accepted in read_accepted(agent, 10)} == {"cards", "transfers"}
