from __future__ import annotations

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client

from rl.models import WebhookDelivery

State = WebhookDelivery.State


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
def test_a_message_that_was_given_up_is_sent_again(client: Client, bob: User, lost: WebhookDelivery):
    client.force_login(bob)
    assert (resend(client, lost).state, lost.attempts) == (State.WAITING, 0)


def test_who_may_only_look_sends_nothing(client: Client, charlie: User, lost: WebhookDelivery):
    charlie.is_staff = True
    charlie.save()
    charlie.user_permissions.add(Permission.objects.get(codename="view_webhookdelivery"))
    client.force_login(charlie)
    assert b"run 1" in client.get("/admin/rl/webhookdelivery/").content
    assert resend(client, lost).state == State.GIVEN_UP
    charlie.user_permissions.add(Permission.objects.get(codename="change_webhookdelivery"))
    assert resend(client, lost).state == State.WAITING
