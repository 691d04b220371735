from pathlib import Path

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client

from rl.collect.feedback import write
from rl.models import Agent, AuditEvent, Deployment, Feedback, Trace, WebhookDelivery
from tests.admin.records import make_version

State = WebhookDelivery.State
LIST = "/admin/rl/feedback/"


@pytest.fixture
def lost(db) -> WebhookDelivery:
    return WebhookDelivery.objects.create(
        endpoint="ops", event="run.finished", occurrence="run 1", payload={}, state=State.GIVEN_UP, attempts=10
    )


def resend(client: Client, delivery: WebhookDelivery) -> WebhookDelivery:
    client.post("/admin/rl/webhookdelivery/", {"action": "send_again", "_selected_action": [delivery.pk]})
    delivery.refresh_from_db()
    return delivery


@pytest.mark.database
def test_a_message_that_was_given_up_is_sent_again(staff: Client, lost: WebhookDelivery):
    assert (resend(staff, lost).state, lost.attempts) == (State.WAITING, 0)


def test_who_may_only_look_sends_nothing(client: Client, charlie: User, lost: WebhookDelivery):
    charlie.is_staff = True
    charlie.save()
    charlie.user_permissions.add(Permission.objects.get(codename="view_webhookdelivery"))
    client.force_login(charlie)
    assert b"run 1" in client.get("/admin/rl/webhookdelivery/").content
    assert resend(client, lost).state == State.GIVEN_UP
    charlie.user_permissions.add(Permission.objects.get(codename="change_webhookdelivery"))
    assert resend(client, lost).state == State.WAITING


@pytest.fixture
def row(agent: Agent) -> Deployment:
    return Deployment.objects.create(agent=agent, version=make_version(agent, "v1"), target="openai", url="http://x")


def test_the_number_of_answers_is_chosen_and_nothing_else(staff: Client, row: Deployment) -> None:
    page = f"/admin/rl/deployment/{row.pk}/change/"
    answer = staff.post(page, {"best_of": "4", "url": "http://elsewhere", "target": "ollama", "path": "/etc/passwd"})
    assert answer.status_code == 302
    row.refresh_from_db()
    assert (row.best_of, row.url, row.target, row.path) == (4, "http://x", "openai", "")
    assert any("Best of" in str(event.details) for event in AuditEvent.objects.filter(action="changed"))


@pytest.mark.parametrize("count", ["0", "9", "x", ""])
def test_it_has_limits(staff: Client, row: Deployment, count: str) -> None:
    assert staff.post(f"/admin/rl/deployment/{row.pk}/change/", {"best_of": count}).status_code == 200
    row.refresh_from_db()
    assert row.best_of == 1


def test_deployments_are_made_and_taken_away_by_commands(staff: Client, row: Deployment) -> None:
    assert staff.get("/admin/rl/deployment/add/").status_code == 403
    assert staff.post(f"/admin/rl/deployment/{row.pk}/delete/", {"post": "yes"}).status_code == 403


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


def test_one_person_at_a_time(staff: Client, two_raters):
    assert "Select feedback of one rater only" in act(staff, *two_raters.values(), confirmed="yes")
    assert Feedback.objects.count() == 2


def test_it_takes_the_permission(client: Client, charlie: User, two_raters):
    charlie.is_staff = True
    charlie.save()
    charlie.user_permissions.add(Permission.objects.get(codename="view_feedback"))
    client.force_login(charlie)
    assert "forget_rater" not in act(client, two_raters["user:alice"], confirmed="yes")
    assert Feedback.objects.count() == 2
