"""What the page of an agent's statistics counts, and that it reads no more of a large agent than of a small one."""

from datetime import timedelta

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from rl.collect.feedback.write import rate
from rl.models import Agent, Feedback, Trace
from rl.web import trace_statistics
from rl.web.trace_statistics import count_statistics
from tests.admin.records import make_loop
from tests.conftest import make_trace

pytestmark = pytest.mark.database

PAGE = "/traces/of/support-chat/"


def thumbs(agent: Agent, *values: float, **fields) -> Trace:
    trace = make_trace(agent)
    for number, value in enumerate(values):
        rate(trace, rater=f"user:{number}", scale="thumb", value=value, source="rating_page", **fields)
    return trace


def test_answers_are_good_bad_undecided_or_not_rated(agent: Agent) -> None:
    for values in ((1,), (1, 1, 0), (0,), (1, 0), (), ()):
        thumbs(agent, *values)
    left, right = (make_trace(agent, "Which?", text) for text in ("this", "that"))
    pick = {"kind": "comparison", "rater": "user:bob", "choice": "left", "source": "try_page"}
    Feedback.objects.create(agent=agent, trace=left, other_trace=right, **pick)
    opinions = count_statistics(agent)["opinions"]
    assert [(part["name"], part["count"], part["start"]) for part in opinions] == [
        ("good", 2, 0),
        ("bad", 1, 2),
        ("otherwise", 3, 3),
        ("unrated", 2, 6),
    ]


def test_feedback_is_counted_by_where_it_came_from_and_what_it_is(agent: Agent) -> None:
    thumbs(agent, 1, 0)
    rate(make_trace(agent), rater="device:7", scale="stars", value=4, source="api")
    assert [(row["source"], row["what"], row["count"]) for row in count_statistics(agent)["sources"]] == [
        ("rating_page", "thumb (0 or 1)", 2),
        ("api", "stars (1 to 5)", 1),
    ]


def test_days_have_answers_and_ratings_of_this_agent_alone(agent: Agent) -> None:
    thumbs(agent, 1, 1)
    old = thumbs(agent, 1)
    Trace.objects.filter(pk=old.pk).update(created_at=timezone.now() - timedelta(days=30))
    thumbs(Agent.objects.create(name="other"), 1)
    counted = count_statistics(agent)
    assert len(counted["days"]) == trace_statistics.DAYS
    assert [row[1:] for row in counted["days"] if any(row[1:])] == [(1, 0), (1, 3)]
    assert (counted["this_week"], counted["rated_this_week"]) == (1, 3)


def test_the_share_of_good_ratings_has_its_interval(agent: Agent) -> None:
    assert count_statistics(agent)["liked"] is None
    thumbs(agent, 1, 1, 1, 0)
    liked = count_statistics(agent)["liked"]
    assert (liked.value, liked.low < 0.4, liked.high > 0.9) == (0.75, True, True)


def test_traces_are_read_in_ever_larger_parts_until_enough_are(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace_statistics, "SAMPLE", 5)
    monkeypatch.setattr(trace_statistics, "AT_ONCE", 2)
    for number in range(7):
        make_trace(agent, f"Question {number}?")
    with CaptureQueriesContext(connection) as queries:
        assert len(list(trace_statistics._newest(agent))) == 5
    assert len(queries) == 2


def test_the_number_of_queries_does_not_grow_with_the_rows(
    staff: Client, agent: Agent, monkeypatch: pytest.MonkeyPatch, django_assert_num_queries
) -> None:
    monkeypatch.setattr(trace_statistics, "AT_ONCE", 100)
    make_loop(agent, 1)
    staff.get(PAGE)
    make_loop(agent, 2)
    with CaptureQueriesContext(connection) as few:
        staff.get(PAGE)
    for number in range(3, 7):
        make_loop(agent, number)
    with django_assert_num_queries(len(few)):
        staff.get(PAGE)


@pytest.mark.skipif(connection.vendor != "sqlite", reason="reads SQLite's query plans")
def test_the_days_and_the_newest_are_read_by_an_index(agent: Agent) -> None:
    thumbs(agent, 1)
    with CaptureQueriesContext(connection) as queries:
        count_statistics(agent)
    asked = ("count(*) FROM (", "LIMIT", "UNION")
    statements = [query["sql"] for query in queries if any(word in query["sql"] for word in asked)]
    plans = []
    with connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(f"EXPLAIN QUERY PLAN {statement}")
            plans.append(" ".join(row[3] for row in cursor.fetchall()))
    assert len(plans) > 4
    assert not [plan for plan in plans if "SCAN rl_trace" in plan or "SCAN rl_feedback" in plan]
    assert (
        sum("COVERING INDEX trace_agent_newest (agent_id=? AND created_at>? AND created_at<?)" in p for p in plans) == 1
    )


def test_what_large_agents_come_to_is_counted_once_a_minute(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rl.web.kept_figures.LARGE", 2)
    monkeypatch.setattr("rl.web.kept_figures._kept", {})
    thumbs(agent, 1, 1)
    first = trace_statistics.read_statistics(agent)
    thumbs(agent, 1)
    assert trace_statistics.read_statistics(agent) is first


@pytest.mark.parametrize("has_answer", [False, True])
def test_an_empty_page_says_what_to_do_next(staff: Client, agent: Agent, has_answer: bool) -> None:
    if has_answer:
        make_trace(agent)
    text = staff.get(PAGE).content.decode()
    assert ("Make a key" in text) is not has_answer
    assert ('href="/rate/support-chat/">Rate answers</a>' in text) is has_answer


def test_every_figure_stays_under_its_exact_name(staff: Client, agent: Agent) -> None:
    make_loop(agent)
    page = staff.get(PAGE)
    text = page.content.decode()
    shown = {name for title in text.split('<dt title="')[1:] for name in title.split('"')[0].split(", ")}
    assert shown == set(page.context["stats"]) - {"agent"}


def test_hostile_names_are_text(staff: Client, agent: Agent) -> None:
    word = "<script>alert(1)"
    call = {"tool_name": word, "arguments": {}, "success": True}
    trace = make_trace(agent, tool_calls=[call], rewards={word: {"value": 1}})
    rate(trace, rater="user:bob", scale="thumb", value=1, source=word)
    assert word not in staff.get(PAGE).content.decode()
