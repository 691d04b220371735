"""The action of the feedback list that forgets a person."""

from __future__ import annotations

from pathlib import Path

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client

from rl.collect.feedback import write
from rl.models import AuditEvent, Feedback, Trace

LIST = "/admin/rl/feedback/"


@pytest.fixture
def two_raters(trace: Trace, data_dir: Path) -> dict[str, int]:
    return {
        rater: write.rate(trace, rater=rater, scale="thumb", value=1, source="test").event.pk
        for rater in ("user:alice", "user:<i>charlie")
    }


def act(client: Client, *events: int, **more: str) -> str:
    data = {"action": "forget_rater", "_selected_action": list(map(str, events)), **more}
    return client.post(LIST, data, follow=True).content.decode()


@pytest.mark.database
def test_a_page_shows_what_would_be_done_and_a_second_click_does_it(client: Client, bob: User, two_raters):
    client.force_login(bob)
    charlie = two_raters["user:<i>charlie"]
    page = act(client, charlie)
    assert "Forget user:&lt;i&gt;charlie?" in page
    assert '<th scope="row">Feedback</th><td>1</td>' in page
    assert Feedback.objects.count() == 2
    assert "The person is forgotten." in act(client, charlie, confirmed="yes")
    assert [event.rater for event in Feedback.objects.all()] == ["user:alice"]
    assert AuditEvent.objects.get(action="forgot").actor == "user:bob"


def test_one_person_at_a_time(client: Client, bob: User, two_raters):
    client.force_login(bob)
    assert "Select feedback of one rater only" in act(client, *two_raters.values(), confirmed="yes")
    assert Feedback.objects.count() == 2


def test_it_takes_the_permission(client: Client, charlie: User, two_raters):
    charlie.is_staff = True
    charlie.save()
    charlie.user_permissions.add(Permission.objects.get(codename="view_feedback"))
    client.force_login(charlie)
    assert "forget_rater" not in act(client, two_raters["user:alice"], confirmed="yes")
    assert Feedback.objects.count() == 2
