"""What the admin's lists of answers and of feedback are searched by."""

from typing import Any

import pytest
from django.test import Client

from rl.collect.feedback import write
from rl.models import Agent, Trace
from tests.conftest import make_trace

pytestmark = pytest.mark.database


@pytest.fixture
def traces(agent: Agent) -> list[Trace]:
    other = Agent.objects.create(name="other")
    first = make_trace(agent, external_id="order-1", session_id="session-1")
    return [first, make_trace(other, external_id="order-1"), make_trace(agent, external_id="order-2")]


def searched(client: Client, kind: str, words: str) -> list[Any]:
    return list(client.get(f"/admin/rl/{kind}/", {"q": words}).context["cl"].result_list)


def test_answers_are_found_by_the_id_that_they_came_with_by_session_and_by_the_start_of_their_own(
    staff: Client, traces: list[Trace]
) -> None:
    assert set(searched(staff, "trace", "order-1")) == set(traces[:2])
    assert searched(staff, "trace", " session-1 ") == traces[:1]
    for start in (str(traces[2].pk), str(traces[2].pk)[:13], traces[2].pk.hex[:12].upper()):
        assert searched(staff, "trace", start) == traces[2:]
    for words in ("order", "zebra", "f" * 33, "-"):
        assert set(searched(staff, "trace", words)) <= (set(traces) if words == "-" else set())


def test_feedback_is_found_by_rater_by_the_answers_id_and_by_words_of_a_note(
    staff: Client, traces: list[Trace]
) -> None:
    events = [
        write.rate(
            trace, rater=f"user:{number}", scale="thumb", value=1, source="test", notes="Too LONG" * number
        ).event
        for number, trace in enumerate(traces)
    ]
    assert searched(staff, "feedback", "user:0") == events[:1]
    assert set(searched(staff, "feedback", "order-1")) == set(events[:2])
    assert set(searched(staff, "feedback", "too long")) == set(events[1:])
    assert searched(staff, "feedback", "user") == []
