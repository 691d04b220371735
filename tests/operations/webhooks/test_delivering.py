import json
from datetime import timedelta
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone
from standardwebhooks.webhooks import Webhook

from rl import tasks
from rl.models import WebhookDelivery
from rl.operations.webhooks.delivering import DELAYS, deliver_due
from tests.operations.webhooks.receiver import SECRET, Receiver, receiver, write_file

pytestmark = [pytest.mark.database, pytest.mark.process, pytest.mark.django_db]
State = WebhookDelivery.State


def waiting(number: int = 1, endpoint: str = "ops") -> WebhookDelivery:
    payload = {"type": "run.finished", "data": {"run": number}}
    return WebhookDelivery.objects.create(
        endpoint=endpoint, event="run.finished", occurrence=f"run {number}", payload=payload
    )


def make_due() -> None:
    WebhookDelivery.objects.update(next_attempt_at=timezone.now())


def test_the_queue_delivers_what_waits_once(ops: Receiver):
    delivery = waiting()
    assert tasks.deliver_webhooks() == {"delivered": 1, "failed": 0}
    assert tasks.deliver_webhooks() == {"delivered": 0, "failed": 0}
    ((_, headers, body),) = ops.got
    assert Webhook(SECRET).verify(body, headers) == delivery.payload
    assert headers["webhook-id"] == f"msg_{delivery.message_id.hex}"
    assert headers["content-type"] == "application/json"
    delivery.refresh_from_db()
    assert (delivery.state, delivery.attempts, delivery.last_status) == (State.DELIVERED, 1, 204)
    assert delivery.delivered_at


def test_it_is_tried_again_later_and_later_and_given_up_in_the_end(ops: Receiver):
    ops.status = 500
    delivery = waiting()
    for number, seconds in enumerate(DELAYS, start=1):
        before = timezone.now()
        assert deliver_due() == {"delivered": 0, "failed": 1}
        delivery.refresh_from_db()
        assert (delivery.state, delivery.attempts, delivery.last_error) == (State.WAITING, number, "answered 500")
        delay = (delivery.next_attempt_at - before).total_seconds()
        assert 0.8 * seconds <= delay <= 1.2 * seconds + 30
        assert deliver_due() == {"delivered": 0, "failed": 0}
        make_due()
    deliver_due()
    delivery.refresh_from_db()
    assert (delivery.state, delivery.attempts) == (State.GIVEN_UP, 10)
    assert len({headers["webhook-id"] for _, headers, _ in ops.got}) == 1
    ops.status = 200
    make_due()
    assert deliver_due() == {"delivered": 0, "failed": 0}


@pytest.mark.parametrize("status", [410])
def test_an_endpoint_that_is_gone_is_asked_no_more(ops: Receiver, status: int):
    ops.status = status
    delivery = waiting()
    deliver_due()
    delivery.refresh_from_db()
    assert delivery.state == State.GIVEN_UP


def test_an_endpoint_that_the_operator_removed_is_given_up(ops: Receiver):
    delivery = waiting(endpoint="old")
    deliver_due()
    delivery.refresh_from_db()
    assert (delivery.state, delivery.last_error) == (State.GIVEN_UP, "WEBHOOKS_FILE names no such endpoint any more")


def test_one_that_fails_does_not_hold_up_the_others(listener: Receiver, tmp_path: Path, settings):
    with receiver() as broken:
        broken.status = 503
        endpoint = {"secret": SECRET, "allow_private": True}
        settings.WEBHOOKS_FILE = write_file(
            tmp_path / "w.yaml", broken={**endpoint, "url": broken.url}, ops={**endpoint, "url": listener.url}
        )
        for number in range(3):
            waiting(number, "broken")
        for number in range(3):
            waiting(number, "ops")
        assert deliver_due() == {"delivered": 3, "failed": 1}
        assert (len(broken.got), len(listener.got)) == (1, 3)


def test_what_another_worker_has_taken_is_left_to_it(ops: Receiver):
    delivery = waiting()
    stale = WebhookDelivery.objects.get()
    WebhookDelivery.objects.update(next_attempt_at=timezone.now() + timedelta(minutes=5), attempts=1)
    from rl.operations.webhooks import delivering

    assert not delivering._take(stale)
    assert deliver_due() == {"delivered": 0, "failed": 0}
    assert ops.got == []
    delivery.delete()


def test_a_secret_that_is_missing_is_said(ops: Receiver, tmp_path: Path, settings):
    endpoint = {"url": ops.url, "secret_env": "NOT_SET_HERE", "allow_private": True}
    settings.WEBHOOKS_FILE = write_file(tmp_path / "w.yaml", ops=endpoint)
    delivery = waiting()
    deliver_due()
    delivery.refresh_from_db()
    assert "the variable NOT_SET_HERE of webhook ops is not whsec_" in delivery.last_error


# --- the command -----------------------------------------------------------------------------------------------------------


def run(capsys, *arguments: str) -> dict:
    call_command("webhooks", *arguments, "--json")
    return json.loads(capsys.readouterr().out)


def test_the_command_lists_what_waits(ops: Receiver, capsys):
    waiting()
    assert run(capsys, "list") == {
        "webhooks": [{"name": "ops", "url": ops.url, "waiting": 1, "delivered": 0, "given_up": 0}]
    }


def test_the_command_tries_an_endpoint(ops: Receiver, capsys):
    assert run(capsys, "test", "ops") == {"status": 204}
    (_, headers, body) = ops.got[0]
    assert Webhook(SECRET).verify(body, headers)["type"] == "webhook.test"
    ops.status = 500
    with pytest.raises(CommandError, match="ops did not take it: answered 500"):
        run(capsys, "test", "ops")
    with pytest.raises(CommandError, match="no endpoint 'nobody'; it names: ops"):
        run(capsys, "test", "nobody")


def test_the_command_sends_a_message_again(ops: Receiver, capsys):
    delivery = waiting()
    deliver_due()
    run(capsys, "resend", f"msg_{delivery.message_id.hex}")
    assert deliver_due() == {"delivered": 1, "failed": 0}
    assert len(ops.got) == 2
    for wrong in ("x", "msg_" + "0" * 32):
        with pytest.raises(CommandError, match="there is no message"):
            run(capsys, "resend", wrong)


def test_the_command_makes_secrets(capsys, tmp_path: Path, settings):
    first, second = run(capsys, "secret")["secret"], run(capsys, "secret")["secret"]
    assert first != second
    assert len(Webhook(first)._whsecret) == 32
