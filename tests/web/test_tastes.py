"""Whose ratings count, and what one prefers beside the demo's raters."""

import pytest

from rl.demo.load import SOURCE, load_demo
from rl.models import Agent, Feedback
from rl.web.tastes import describe_tastes
from tests.conftest import make_trace

pytestmark = pytest.mark.database


def pick(agent: Agent, rater: str, shorter: bool, source: str = "try_page") -> None:
    """Between an answer of one word, on the left, and one of many."""
    left, right = make_trace(agent, "Why?", "So."), make_trace(agent, "Why?", "It is a long story. " * 5)
    choice = Feedback.Choice.LEFT if shorter else Feedback.Choice.RIGHT
    common = {"agent": agent, "trace": left, "other_trace": right, "rater": rater, "source": source}
    Feedback.objects.create(kind=Feedback.Kind.COMPARISON, choice=choice, **common)


def test_where_nobody_has_rated_nothing_is_said(agent: Agent) -> None:
    assert describe_tastes(agent, "user:bob") == []


def test_ones_own_taste_stands_beside_the_demos_and_simulated_ratings_are_named_so(agent: Agent) -> None:
    for shorter in (False, False, True):
        pick(agent, "user:bob", shorter)
    for shorter in (True, True):
        pick(agent, "simulated-1", shorter, SOURCE)
    pick(agent, "user:alice", True)
    assert describe_tastes(agent, "user:bob") == [
        "Ratings that count: 3 yours, 2 simulated (the demo's), 1 other people's. "
        "All weigh alike, unless raters contradict each other.",
        "You prefer the longer answer in 2 of 3 picks; the demo's raters the shorter answer in 2 of 2 picks.",
    ]


def test_without_picks_of_both_no_taste_is_told_and_a_cap_is_named(agent: Agent) -> None:
    agent.rater_cap = 0.5
    pick(agent, "user:bob", True)
    assert describe_tastes(agent, "user:bob") == [
        "Ratings that count: 1 yours. All weigh alike, unless raters contradict each other; "
        "nobody decides more than 50% of a training."
    ]


def test_the_everyday_demo_prefers_short_answers(db: None) -> None:
    agent = load_demo(name="everyday")
    pick(agent, "user:bob", False)
    assert "the demo's raters the shorter answer in" in describe_tastes(agent, "user:bob")[1]
