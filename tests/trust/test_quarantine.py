from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from rl.base.errors import UsageError
from rl.collect.feedback.write import rate, retract
from rl.models import Agent, ApiKey, AuditEvent, Feedback, Quarantine, Trace
from rl.trust import quarantine
from tests.conftest import make_trace

pytestmark = pytest.mark.django_db
ROBOT = "device:robot"


def rate_quickly(agent: Agent, number: int = 60, *, source: str = "rating_page", rater: str = ROBOT) -> list[Trace]:
    """Ten decisions a second, on one answer each."""
    traces = [make_trace(agent, f"question {at}") for at in range(number)]
    start = timezone.now() - timedelta(minutes=1)
    for at, trace in enumerate(traces):
        when = start + timedelta(milliseconds=100 * at)
        rate(trace, rater=rater, scale="thumb", value=at % 2, source=source, rated_at=when)
    return traces


HERE = "a" * 16


def rate_in_turns(
    agent: Agent, key: ApiKey, names: int, *, seconds: float = 0.1, on_one: bool = False
) -> list[Feedback]:
    """Sixty decisions, one every so many seconds, each by the next of so many names of one address."""
    traces = [make_trace(agent, f"question {at}") for at in range(1 if on_one else 60)]
    start = timezone.now() - timedelta(minutes=5)
    said: dict[str, Any] = {"scale": "thumb", "source": "api", "api_key": key, "address": "" if on_one else HERE}
    return [
        rate(
            traces[at % len(traces)],
            rater=f"device:{at % names}",
            value=at % 2,
            rated_at=start + timedelta(seconds=seconds * at),
            **said,
        ).event
        for at in range(60)
    ]


def rate_once(agent: Agent, key: ApiKey, rater: str, address: str = HERE) -> Feedback:
    said: dict[str, Any] = {"scale": "thumb", "value": 1, "source": "api", "api_key": key, "address": address}
    return rate(make_trace(agent, f"what {rater} asks"), rater=rater, **said).event


@pytest.fixture
def page_key(agent: Agent) -> ApiKey:
    origins = ["https://shop.example"]
    return ApiKey.create(name="p", kind="publishable", agent=agent, allowed_origins=origins, needs_tokens=True)[0]


@pytest.mark.database
def test_a_burst_under_ever_new_names_from_one_address_is_held_back(agent: Agent, page_key: ApiKey):
    rate_in_turns(agent, page_key, 60)
    other = rate_once(agent, page_key, "device:elsewhere", "b" * 16)
    [row] = quarantine.look()
    assert (row.rater, row.reason) == (f"address:{HERE}", "60 decisions within 20 seconds")
    assert list(Feedback.objects.filter(is_current=True)) == [other]
    rate_once(agent, page_key, "device:y")
    assert quarantine.look() == []
    assert row.feedback.count() == 61
    Quarantine.objects.update(created_at=timezone.now() - timedelta(days=2))  # the address has another hash by now
    rate_once(agent, page_key, "device:z")
    assert quarantine.look() == []
    assert row.feedback.count() == 61


@pytest.mark.database
def test_a_burst_on_the_answer_of_one_token_is_held_back(agent: Agent, page_key: ApiKey):
    events = rate_in_turns(agent, page_key, 60, on_one=True)
    [row] = quarantine.look()
    assert (row.rater, row.feedback.count()) == (f"answer:{events[0].trace_id}", 60)
    assert quarantine.release(row, "bob") == 60
    assert quarantine.look() == []


def test_many_people_behind_one_address_or_about_a_good_answer_are_people(agent: Agent, page_key: ApiKey):
    rate_in_turns(agent, page_key, 60, seconds=1)
    good = make_trace(agent, "a good answer")
    for at in range(60):
        when = timezone.now() - timedelta(seconds=120 - at)
        said: dict[str, Any] = {"scale": "thumb", "value": 1, "source": "api", "api_key": page_key, "rated_at": when}
        rate(good, rater=f"device:fan {at}", **said)
    assert quarantine.look() == []


def test_who_shares_an_address_with_one_who_is_held_is_left_alone(agent: Agent, page_key: ApiKey):
    robot = rate_in_turns(agent, page_key, 1)[0].rater
    rate_once(agent, page_key, "device:y")
    [row] = quarantine.look()
    assert row.rater == robot
    assert Feedback.objects.filter(is_current=True).count() == 1
    quarantine.release(row, "bob")
    assert quarantine.look() == []


def current() -> int:
    return Feedback.objects.filter(rater=ROBOT, is_current=True).count()


def test_a_burst_is_held_back_and_its_answers_are_scored_anew(agent: Agent):
    traces = rate_quickly(agent)
    Trace.objects.update(reward_pending=False)
    rate(traces[0], rater="user:alice", scale="thumb", value=1, source="rating_page")
    [row] = quarantine.look()
    assert (row.rater, row.reason) == (ROBOT, "60 decisions within 20 seconds")
    assert current() == 0
    assert row.feedback.count() == 60
    assert Feedback.objects.filter(rater="user:alice", is_current=True).count() == 1
    assert Trace.objects.filter(reward_pending=True).count() == 60
    event = AuditEvent.objects.get(action="quarantined")
    assert (event.agent, event.details["count"]) == (agent.name, 60)
    assert quarantine.look() == []


@pytest.mark.parametrize(("number", "source"), [(59, "rating_page"), (60, "api"), (60, "command_center")])
def test_what_is_not_by_hand_or_not_so_much_is_not_held(agent: Agent, number: int, source: str):
    rate_quickly(agent, number, source=source)
    assert quarantine.look() == []


def test_what_a_rater_adds_while_he_is_held_back_is_held_too(agent: Agent):
    rate_quickly(agent)
    [row] = quarantine.look()
    rate(make_trace(agent, "later"), rater=ROBOT, scale="thumb", value=1, source="rating_page")
    assert current() == 1
    assert quarantine.look() == []
    assert (current(), row.feedback.count()) == (0, 61)


@pytest.mark.database
def test_a_release_brings_back_what_was_not_said_anew_and_is_not_looked_at_again(agent: Agent):
    traces = rate_quickly(agent)
    [row] = quarantine.look()
    anew = rate(traces[0], rater=ROBOT, scale="thumb", value=1, source="rating_page").event
    assert quarantine.release(row, "bob") == 59
    assert Feedback.objects.get(trace=traces[0], rater=ROBOT, is_current=True) == anew
    assert current() == 60
    assert not Feedback.objects.exclude(quarantine=None).exists()
    assert AuditEvent.objects.get(action="released").details["count"] == 59
    assert quarantine.look() == []
    with pytest.raises(UsageError, match="released before"):
        quarantine.release(row, "bob")
    with pytest.raises(UsageError, match="released before"):
        quarantine.keep(row, "bob")


@pytest.mark.database
def test_comparisons_come_back_unless_they_were_taken_back(agent: Agent):
    traces = [make_trace(agent, f"question {at}") for at in range(2)]
    row = Quarantine.objects.create(agent=agent, rater=ROBOT, reason="why")
    fields = {"agent": agent, "trace": traces[0], "rater": ROBOT, "is_current": False}
    kept, lost = (
        Feedback.objects.create(**fields, kind="comparison", other_trace=traces[1], choice=choice, quarantine=row)
        for choice in ("left", "right")
    )
    Feedback.objects.create(**fields, kind="retraction", retracts=lost)
    assert quarantine.release(row, "bob") == 1
    assert list(Feedback.objects.filter(is_current=True)) == [kept]


def test_whoever_kept_it_is_named(agent: Agent):
    rate_quickly(agent)
    [row] = quarantine.look()
    assert [(held, by) for _, held, by in quarantine.list_held()] == [(60, "")]
    quarantine.keep(row, "bob")
    assert [(held, by) for _, held, by in quarantine.list_held()] == [(60, "bob")]


@pytest.mark.database
def test_what_a_rater_takes_back_while_it_is_held_does_not_come_back(agent: Agent):
    rate_quickly(agent)
    [row] = quarantine.look()
    event = row.feedback.first()
    assert event is not None
    assert retract(event, rater=ROBOT, source="rating_page")
    assert not retract(event, rater=ROBOT, source="rating_page")
    assert quarantine.release(row, "bob") == 59
    assert not Feedback.objects.get(pk=event.pk).is_current
