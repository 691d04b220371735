from __future__ import annotations

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from rl.collect.feedback import write
from rl.collect.traces.episodes import store_episodes
from rl.models import Agent, Trace
from rl.web import rating_queue
from rl.web.rating_queue import QueuePosition, last_decisions, next_trace, progress, unrated_traces
from tests.collect.made_episodes import episode
from tests.conftest import make_trace

ALICE = "user:alice"


@pytest.fixture
def answers(agent: Agent) -> list[Trace]:
    return [make_trace(agent, f"question {number}") for number in range(4)]


def rate(trace: Trace, rater: str = ALICE):
    return write.rate(trace, rater=rater, scale="thumb", value=1, source="test").event


def test_the_oldest_unrated_answer_comes_first(agent: Agent, answers: list[Trace]) -> None:
    rate(answers[0])
    assert next_trace(unrated_traces(agent, ALICE), QueuePosition()) == answers[1]


def test_ratings_of_others_do_not_count(agent: Agent, answers: list[Trace]) -> None:
    rate(answers[0], "user:bob")
    assert next_trace(unrated_traces(agent, ALICE), QueuePosition()) == answers[0]


def test_a_retracted_rating_does_not_count(agent: Agent, answers: list[Trace]) -> None:
    write.retract(rate(answers[0]), rater=ALICE, source="test")
    assert next_trace(unrated_traces(agent, ALICE), QueuePosition()) == answers[0]


def test_empty_answers_and_other_agents_are_not_asked_about(agent: Agent) -> None:
    make_trace(agent, response="")
    make_trace(Agent.objects.create(name="other"))
    assert next_trace(unrated_traces(agent, ALICE), QueuePosition()) is None


def test_what_is_skipped_comes_last_in_the_order_of_skipping(agent: Agent, answers: list[Trace]) -> None:
    position = QueuePosition()
    position.skip(answers[1])
    position.skip(answers[0])
    seen = []
    while trace := next_trace(unrated_traces(agent, ALICE), position):
        position.note_rating(trace, rate(trace))
        seen.append(trace)
    assert seen == [answers[2], answers[3], answers[1], answers[0]]


def test_skipping_the_last_one_asks_again(agent: Agent, answers: list[Trace]) -> None:
    position = QueuePosition()
    for trace in answers:
        position.skip(trace)
    assert next_trace(unrated_traces(agent, ALICE), position) == answers[0]
    position.skip(answers[0])
    assert next_trace(unrated_traces(agent, ALICE), position) == answers[1]


def test_the_skipped_answer_on_the_screen_is_not_the_next_one(agent: Agent, answers: list[Trace]) -> None:
    position = QueuePosition()
    for trace in answers:
        position.skip(trace)
    assert next_trace(unrated_traces(agent, ALICE), position, showing=answers[0].pk) == answers[1]


def test_behind_the_last_answer_the_search_starts_again(agent: Agent, answers: list[Trace]) -> None:
    position = QueuePosition(since=answers[3].created_at.isoformat())
    rate(answers[3])
    assert next_trace(unrated_traces(agent, ALICE), position) == answers[0]


def test_an_undone_answer_is_found_again(agent: Agent, answers: list[Trace]) -> None:
    position = QueuePosition()
    events = []
    for trace in answers[:2]:
        events.append(rate(trace))
        position.note_rating(trace, events[-1])
    write.retract(events[0], rater=ALICE, source="test")
    position.note_undo(answers[0], events[0])
    assert next_trace(unrated_traces(agent, ALICE), position) == answers[0]
    assert last_decisions(ALICE, position) == [events[1]]


def test_episodes_come_after_all_other_answers(agent: Agent) -> None:
    store_episodes(agent, [episode("a"), episode("b")])
    answers = [make_trace(agent, "question 1"), make_trace(agent, "question 2")]
    position, seen = QueuePosition(), []
    position.skip(answers[0])
    while trace := next_trace(unrated_traces(agent, ALICE), position):
        position.note_rating(trace, rate(trace))
        seen.append(trace)
    assert [trace.source for trace in seen] == ["api", "episode", "episode", "api"]
    assert (seen[0], seen[3]) == (answers[1], answers[0])


def test_an_answer_that_comes_in_meanwhile_goes_before_the_episodes(agent: Agent) -> None:
    store_episodes(agent, [episode("a"), episode("b")])
    position = QueuePosition()
    first = next_trace(unrated_traces(agent, ALICE), position)
    position.note_rating(first, rate(first))
    answer = make_trace(agent)
    assert next_trace(unrated_traces(agent, ALICE), position) == answer


def test_progress_counts_episodes_once_all_other_answers_are_rated(agent: Agent) -> None:
    store_episodes(agent, [episode("a"), episode("b"), episode("c")])
    answer = make_trace(agent)
    rate(Trace.objects.filter(source="episode").first())
    assert progress(agent, ALICE, QueuePosition())["text"] == "0 of 1"
    rate(answer)
    assert progress(agent, ALICE, QueuePosition())["text"] == "1 of 3"


def test_the_session_keeps_a_bounded_place(agent: Agent, answers: list[Trace]) -> None:
    position = QueuePosition(skipped=[str(number) for number in range(500)])
    position.skip(answers[0])
    assert len(position.skipped) == rating_queue.SKIPPED
    assert position.skipped[-1] == str(answers[0].pk)
    assert QueuePosition.load(position.as_dict()) == position


def test_the_speed_is_that_of_the_last_ratings() -> None:
    assert QueuePosition(decided=[(1, 100.0), (2, 104.0)]).per_minute() is None
    assert QueuePosition(decided=[(1, 100.0), (2, 104.0), (3, 110.0)]).per_minute() == 12


def test_progress_says_how_long_it_takes(agent: Agent, answers: list[Trace]) -> None:
    rate(answers[0])
    position = QueuePosition(decided=[(1, 0.0), (2, 60.0), (3, 120.0)])
    assert progress(agent, ALICE, position)["text"] == "1 of 4 · 1 a minute · about 3 min left"


def test_progress_stops_counting_at_the_limit(agent: Agent, answers: list[Trace], monkeypatch) -> None:
    monkeypatch.setattr(rating_queue, "COUNTED", 3)
    assert progress(agent, ALICE, QueuePosition())["text"] == "0 of 3+"


@pytest.mark.skipif(connection.vendor != "sqlite", reason="reads SQLite's query plans")
def test_the_next_answer_is_found_by_indexes_without_a_sort(agent: Agent, answers: list[Trace]) -> None:
    plan = unrated_traces(agent, ALICE).filter(created_at__gte=answers[0].created_at)[:1].explain()
    assert "USING INDEX trace_agent_newest" in plan
    assert "TEMP B-TREE" not in plan
    assert "SCAN" not in plan.replace("SCALAR", "")


@pytest.mark.skipif(connection.vendor != "sqlite", reason="reads SQLite's query plans")
def test_a_raters_own_progress_is_counted_by_the_index_on_the_rater(agent: Agent) -> None:
    with CaptureQueriesContext(connection) as queries:
        progress(agent, ALICE, QueuePosition())
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN QUERY PLAN {queries[0]['sql']}")
        assert "feedback_rater (rater=?)" in " ".join(row[3] for row in cursor.fetchall())
