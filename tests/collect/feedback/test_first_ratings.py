import threading

import pytest
from django.db import connection, transaction

from rl.collect.feedback import write
from rl.collect.feedback.events import UnreadTrace, rating
from rl.models import Agent, Feedback, Trace
from tests.collect.feedback.test_group_commit import ended
from tests.conftest import make_trace

pytestmark = [pytest.mark.database, pytest.mark.django_db(transaction=True)]


def rate_in_thread(trace: Trace, **fields) -> threading.Thread:
    def rate() -> None:
        try:
            write.rate(trace, scale="thumb", source="test", **fields)
        finally:
            connection.close()

    thread = threading.Thread(target=rate)
    thread.start()
    return thread


def test_what_rates_a_trace_while_its_reward_is_written_is_not_missed_by_the_next():
    trace = make_trace(Agent.objects.create(name="busy"))
    with transaction.atomic():
        locked = Trace.objects.select_for_update().get(pk=trace.pk)
        thread = rate_in_thread(trace, rater="anna", value=1)
        thread.join(0.3)
        locked.reward_pending = False
        locked.save(update_fields=["reward_pending"])
    ended([thread])
    trace.refresh_from_db()
    assert (trace.feedback.count(), trace.reward_pending) == (1, True)


def test_somebody_who_rates_twice_at_once_is_counted_once():
    trace = make_trace(Agent.objects.create(name="busy"))
    ended([rate_in_thread(trace, rater="anna", value=number % 2) for number in range(6)])
    assert trace.feedback.filter(is_current=True).count() == 1


def test_a_trace_of_another_agent_and_one_that_is_not_there_are_left_out():
    mine, other = (make_trace(Agent.objects.create(name=name)) for name in ("mine", "other"))
    gone = make_trace(mine.agent, "deleted")
    pk = gone.pk
    gone.delete()
    given = [UnreadTrace(mine.pk, None), UnreadTrace(other.pk, mine.agent_id), UnreadTrace(pk, None)]
    outcomes = write.record_each([rating(each, rater="anna", scale="thumb", value=1, source="test") for each in given])
    assert outcomes[0].created
    assert outcomes[0].event.agent_id == mine.agent_id
    assert [isinstance(outcome, write.UnknownTrace) for outcome in outcomes] == [False, True, True]


def test_what_is_stored_is_what_was_given():
    trace = make_trace(Agent.objects.create(name="busy"))
    event = rating(trace, rater="anna", scale="stars", value=4, notes="it's 100 %\n", tags=["a'b", "%s"], source="test")
    (outcome,) = write.record_each([event])
    stored = Feedback.objects.get(pk=outcome.event.pk)
    names = [field.attname for field in Feedback._meta.concrete_fields]
    assert [getattr(stored, name) for name in names] == [getattr(event, name) for name in names]
