"""Unlabelled traces, one after the other."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User
from django.test import Client

from rl.collect.feedback.write import rate
from rl.models import Agent, Feedback, Trace
from tests.conftest import make_trace

ADDRESS = "/traces/of/support-chat/label/"


@pytest.fixture
def traces(agent: Agent) -> list[Trace]:
    return [make_trace(agent, f"question {number}") for number in range(3)]


@pytest.fixture
def staff(client: Client, bob: User) -> Client:
    client.force_login(bob)
    return client


def shown(client: Client) -> Trace | None:
    return client.get(ADDRESS).context.get("trace")


def test_it_shows_the_oldest_that_nobody_has_labelled(staff: Client, traces: list[Trace]) -> None:
    rate(traces[0], rater="user:alice", scale="thumb", value=1, source="test")
    assert shown(staff) == traces[1]


def test_a_label_leads_to_the_next_and_can_be_undone(staff: Client, traces: list[Trace]) -> None:
    assert staff.post(ADDRESS, {"trace": traces[0].pk, "value": "1"})["Location"] == ADDRESS
    assert shown(staff) == traces[1]
    staff.post(ADDRESS, {"action": "undo"})
    assert shown(staff) == traces[0]
    assert list(Feedback.objects.values_list("kind", "is_current")) == [("retraction", False), ("rating", False)]


def test_a_skipped_trace_comes_again_at_the_end(staff: Client, traces: list[Trace]) -> None:
    staff.post(ADDRESS, {"trace": traces[0].pk, "action": "skip"})
    assert shown(staff) == traces[1]
    for trace in traces[1:]:
        staff.post(ADDRESS, {"trace": trace.pk, "value": "0"})
    assert shown(staff) == traces[0]


def test_when_all_are_labelled_it_says_so(staff: Client, traces: list[Trace]) -> None:
    for trace in traces:
        staff.post(ADDRESS, {"trace": trace.pk, "value": "1"})
    page = staff.get(ADDRESS)
    assert b"All labelled" in page.content
    assert Feedback.objects.filter(is_current=True).count() == 3


def test_a_trace_of_another_agent_is_refused(staff: Client, traces: list[Trace]) -> None:
    other = make_trace(Agent.objects.create(name="other"))
    answer = staff.post(ADDRESS, {"trace": other.pk, "value": "1"})
    assert answer.status_code == 400
    assert ADDRESS.encode() in answer.content
    assert not Feedback.objects.exists()


def test_its_place_is_not_that_of_the_rating_page(staff: Client, traces: list[Trace]) -> None:
    staff.post("/rate/support-chat/", {"trace": traces[0].pk, "action": "skip"})
    assert shown(staff) == traces[0]
