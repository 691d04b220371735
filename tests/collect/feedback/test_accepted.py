import pytest

from rl.collect.feedback.judged_answers import read_accepted
from rl.collect.feedback.write import compare, correct
from rl.models import Agent
from tests.conftest import make_trace
from tests.dataset_builder.ratings import rated

pytestmark = [pytest.mark.django_db, pytest.mark.database]


def test_edited_liked_and_preferred_answers_are_accepted_each_once_to_a_prompt(agent: Agent):
    for rater in ("alice", "bob"):
        rated(agent, "Which?", "cards", 1, rater)
    rated(agent, "And?", "cash", 0)
    correct(make_trace(agent, "Where?", "cards"), text="top-up", rater="alice", source="test")
    left, right = (make_trace(agent, "Who?", answer) for answer in ("cards", "identity"))
    compare(left, right, choice="right", rater="alice", source="test")
    compare(left, right, choice="tie", rater="bob", source="test")
    assert sorted(accepted.answer for accepted in read_accepted(agent, 100)) == ["cards", "identity", "top-up"]
