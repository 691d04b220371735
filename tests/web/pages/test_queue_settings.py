from __future__ import annotations

import pytest
from django.contrib.auth.models import User
from django.test import Client

from rl.models import Agent, AuditEvent, Invite, RatingQueue
from tests.conftest import make_trace

NEW = "/rate/support-chat/+/settings/"
ADDRESS = "/rate/support-chat/experts/settings/"
FIELDS = {
    "name": "experts",
    "rubric": "stars",
    "order": "random",
    "lock_seconds": "300",
    "gold_share": "0.05",
    "repeat_share": "0.05",
    "tags": "legal, medical",
    "filters": '{"rated": false}',
}


@pytest.fixture
def staff(client: Client, bob: User) -> Client:
    client.force_login(bob)
    return client


def test_it_takes_the_permission(client: Client, alice: User, agent: Agent) -> None:
    client.force_login(alice)
    assert client.get(NEW).status_code == 403


@pytest.mark.database
def test_staff_makes_changes_and_closes_a_queue(staff: Client, agent: Agent) -> None:
    assert staff.get(NEW).status_code == 200
    assert staff.post(NEW, FIELDS)["Location"] == ADDRESS
    queue = RatingQueue.objects.get()
    assert (queue.tags, queue.filters, queue.rubric) == (["legal", "medical"], {"rated": False}, "stars")
    assert staff.post(ADDRESS, {**FIELDS, "closed": "on"})["Location"] == ADDRESS
    queue.refresh_from_db()
    assert queue.closed_at is not None
    assert AuditEvent.objects.filter(target="rating queue experts").count() == 3


@pytest.mark.database
@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"filters": '{"colour": 1}'}, "unknown filter &#x27;colour&#x27;"),
        ({"filters": "{"}, "Enter a valid JSON."),
        ({"filters": '{"versions": ["v9"]}'}, "has no version v9"),
        ({"filters": '{"from": "soon"}'}, "filters.from: a date such as"),
        ({"gold_share": "0.9"}, "less than or equal to 0.5"),
        ({"name": "a/b"}, "queue name"),
        ({"tags": "x" * 51}, "tags: at most"),
    ],
)
def test_what_cannot_be_is_refused_in_words(staff: Client, agent: Agent, fields: dict[str, str], words: str) -> None:
    answer = staff.post(NEW, {**FIELDS, **fields})
    assert answer.status_code == 400
    assert words in answer.content.decode()
    assert not RatingQueue.objects.exists()


@pytest.mark.database
def test_the_rubric_stays_once_somebody_has_rated(staff: Client, agent: Agent) -> None:
    make_trace(agent)
    staff.post(NEW, FIELDS)
    staff.get("/rate/support-chat/experts/")
    assert "make another queue" in staff.post(ADDRESS, {**FIELDS, "rubric": "thumbs"}).content.decode()


def test_staff_invites_and_takes_back(staff: Client, agent: Agent) -> None:
    staff.post(NEW, FIELDS)
    assert staff.post(ADDRESS, {"action": "invite", "guest": "Dr. Dora", "days": "7"}).status_code == 302
    invite = Invite.objects.get()
    assert invite.created_by == "user:bob"
    assert "http://testserver/rate/by/" in staff.get(ADDRESS).content.decode()
    assert staff.post(ADDRESS, {"action": "revoke", "invite": invite.pk}).status_code == 302
    assert "http://testserver/rate/by/" not in staff.get(ADDRESS).content.decode()
    assert "whom it is for" in staff.post(ADDRESS, {"action": "invite", "guest": "", "days": "7"}).content.decode()
