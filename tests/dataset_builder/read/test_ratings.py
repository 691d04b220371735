import threading

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from rl.collect.feedback import write
from rl.dataset_builder.read.groups import BOTH_BAD, NEUTRAL, OTHER_PROMPT, OUTCOME, TIE, Tally
from rl.dataset_builder.read.ratings import DatabaseSource
from rl.models import Agent, Feedback
from tests.conftest import make_trace
from tests.dataset_builder.ratings import rate, rate_prompts, rated

pytestmark = pytest.mark.database


def read(agent):
    tally = Tally()
    return list(DatabaseSource(agent).groups(tally)), tally


def test_the_ratings_of_an_answer_are_counted_as_above_and_below_the_middle(agent, trace):
    events = [
        rate(trace, 1, "alice"),
        rate(trace, 0, "bob"),
        rate(trace, 4, "carol", "stars"),
        rate(trace, 3, "dave", "stars"),
        rate(trace, 0.2, "eve", "score"),
    ]
    [group], tally = read(agent)
    [answer] = group.answers
    assert (answer.up, answer.down) == (2, 2)
    assert set(answer.feedback_ids) == {events[place].pk for place in (0, 1, 2, 4)}
    assert answer.response == trace.response
    assert answer.prompt == tuple(trace.prompt)
    assert tally.skipped == {NEUTRAL: 1}
    assert sorted(tally.ids) == [event.pk for event in events]


def test_an_answer_with_middling_ratings_only_is_no_rated_answer(agent, trace):
    rate(trace, 3, scale="stars")
    [group], tally = read(agent)
    assert group.answers == []
    assert tally.read == 1


def test_superseded_and_retracted_ratings_are_not_read(agent, trace):
    rate(trace, 0)
    rate(trace, 1)
    withdrawn = rate(trace, 0, "bob")
    write.retract(withdrawn, rater="bob", source="test")
    [group], tally = read(agent)
    assert (group.answers[0].up, group.answers[0].down, tally.read) == (1, 0, 1)


def test_other_agents_are_not_read(agent, trace):
    rate(make_trace(Agent.objects.create(name="other")), 1)
    assert read(agent)[0] == []


def test_answers_come_grouped_by_prompt(agent):
    rate_prompts(agent, 7)
    groups, _ = read(agent)
    assert len(groups) == len({group.prompt_key for group in groups}) == 7
    assert all(len(group.answers) == 2 for group in groups)


@pytest.mark.parametrize(("choice", "chosen"), [("left", "Left."), ("right", "Right.")])
def test_a_pick_prefers_the_answer_that_was_picked(agent, choice, chosen):
    left, right = make_trace(agent, response="Left."), make_trace(agent, response="Right.")
    event = write.compare(left, right, choice=choice, rater="alice", source="test").event
    [group], _ = read(agent)
    [preference] = group.direct
    assert (preference.chosen, preference.feedback_id) == (chosen, event.pk)
    assert {preference.chosen, preference.rejected} == {"Left.", "Right."}


def test_picks_without_a_winner_and_outcomes_are_counted(agent, trace):
    other = make_trace(agent, response="Another.")
    write.compare(trace, other, choice="tie", rater="alice", source="test")
    write.compare(trace, other, choice="both_bad", rater="bob", source="test")
    write.outcome(trace, metric="returned", value=3, rater="shop", source="test")
    stray = make_trace(agent, "Something else?")
    Feedback.objects.create(
        agent=agent, trace=trace, other_trace=stray, kind="comparison", choice="left", rater="carol"
    )
    [group], tally = read(agent)
    assert group.direct == group.answers == []
    assert tally.skipped == {TIE: 1, BOTH_BAD: 1, OUTCOME: 1, OTHER_PROMPT: 1}
    assert tally.read == 4


def test_a_correction_is_preferred_to_the_answer_it_corrects(agent, trace):
    write.correct(trace, text="It arrives on Friday.", rater="alice", source="test")
    [group], _ = read(agent)
    [preference] = group.direct
    assert (preference.chosen, preference.rejected) == ("It arrives on Friday.", trace.response)


def test_widget_choices_come_back_from_the_details(agent):
    details = {
        "scenario": "kpi",
        "fixture": "kpi_live",
        "size": "hero",
        "pipeline_meta": {"intent": {"domains": ["industrial"]}},
        "data_override": {"demoData": {"unit": "%"}},
    }
    rate(make_trace(agent, "How warm is it?", details=details), 1)
    rated(agent, "How cold is it?", "Very.", 1)
    groups, _ = read(agent)
    [widget] = [group.answers[0].widget for group in groups if group.answers[0].widget]
    assert (widget.scenario, widget.fixture, widget.size) == ("kpi", "kpi_live", "hero")
    assert (widget.question, widget.intent, widget.data) == (
        "How warm is it?",
        {"domains": ["industrial"]},
        {"demoData": {"unit": "%"}},
    )


def test_scenarios_are_those_of_all_answers(agent):
    for scenario in ("trend", "kpi", "kpi"):
        make_trace(agent, details={"scenario": scenario})
    make_trace(agent, details={"scenario": None})
    make_trace(agent, details={"scenario": {"name": "trend"}})
    make_trace(Agent.objects.create(name="other"), details={"scenario": "alerts"})
    assert [*DatabaseSource(agent).fixtures()] == ["kpi", "trend"]


def test_the_number_of_queries_does_not_grow_with_the_ratings(agent):
    counts = []
    for start in (0, 10):
        rate_prompts(agent, 10, start)
        with CaptureQueriesContext(connection) as queries:
            read(agent)
        counts.append(sum(not query["sql"].startswith("SET ") for query in queries))  # a setting reads nothing
    assert counts[0] == counts[1] <= 4


@pytest.mark.django_db(transaction=True)
def test_what_others_write_while_the_rows_are_read_is_not_read(monkeypatch):
    """Outside a transaction and over two connections, as in production, with many fetches."""
    monkeypatch.setattr("rl.dataset_builder.read.ratings.CHUNK", 3)
    agent = Agent.objects.create(name="support-chat")
    rate_prompts(agent, 10)
    tally = Tally()
    for number, _ in enumerate(DatabaseSource(agent).groups(tally)):
        if number % 5 == 0:
            other = threading.Thread(target=_rate_elsewhere, args=(agent, number))
            other.start()
            other.join()
    assert tally.read == 20
    assert Feedback.objects.count() == 24


def _rate_elsewhere(agent: Agent, number: int) -> None:
    try:
        rate_prompts(agent, 1, start=100 + number)
    finally:
        connection.close()
