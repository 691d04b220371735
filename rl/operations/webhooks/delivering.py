"""Brings waiting messages to their endpoints. The queue calls it every minute; two of it at the same time share the work."""

from __future__ import annotations

import json
import logging
import random
import time
from datetime import timedelta
from typing import Any, Final

from django.db.models import F
from django.utils import timezone

from rl.base.errors import UsageError
from rl.models import WebhookDelivery
from rl.operations.webhooks.endpoints import Endpoint, endpoints
from rl.operations.webhooks.sending import Answer, post
from rl.operations.webhooks.signing import signed_headers

logger = logging.getLogger(__name__)

_HOUR = 3600
DELAYS: Final = (60, 300, 1800, 2 * _HOUR, 5 * _HOUR, 10 * _HOUR, 14 * _HOUR, 20 * _HOUR, 24 * _HOUR)
"""Seconds after each attempt that failed; after the tenth it is given up, three days after the first."""
JITTER: Final = 0.2
"""Share by which a delay varies, so that what failed together does not come together again."""
ROUND_SECONDS: Final = 100.0
"""Seconds after which a round begins no other message; the rest waits for the next."""
LEASE: Final = timedelta(minutes=5)
"""How long a message is left to whoever took it up: longer than sending can take."""
GONE: Final = 410
"""An endpoint that answers so wants no more of it."""
State = WebhookDelivery.State


def deliver_due() -> dict[str, int]:
    """One round: how many were delivered, and how many not. An endpoint that fails is left alone until the next round, so
    that it does not hold up the others."""
    counts = {"delivered": 0, "failed": 0}
    known, failing, began = endpoints(), set[str](), time.monotonic()
    due = WebhookDelivery.objects.filter(state=State.WAITING, next_attempt_at__lte=timezone.now())
    for delivery in due.order_by("next_attempt_at", "pk").iterator(chunk_size=100):
        if time.monotonic() - began > ROUND_SECONDS:
            break
        if delivery.endpoint in failing or not _take(delivery):
            continue
        if attempt(delivery, known.get(delivery.endpoint)).is_success:
            counts["delivered"] += 1
        else:
            counts["failed"] += 1
            failing.add(delivery.endpoint)
    return counts


def attempt(delivery: WebhookDelivery, endpoint: Endpoint | None) -> Answer:
    """Sends one message that the caller has taken, and writes down what came of it."""
    if endpoint is None:
        answer = Answer(None, "WEBHOOKS_FILE names no such endpoint any more")
    else:
        answer = send(endpoint, f"msg_{delivery.message_id.hex}", delivery.payload)
    _note(delivery, answer, given_up=endpoint is None or answer.status == GONE)
    return answer


def send(endpoint: Endpoint, message_id: str, payload: object) -> Answer:
    body = json.dumps(payload, ensure_ascii=False).encode()
    try:
        headers = signed_headers(endpoint.key(), message_id, int(time.time()), body)
    except UsageError as error:
        return Answer(None, str(error))
    named = {"content-type": "application/json", "user-agent": "Ratchet-Webhooks", **headers}
    return post(endpoint.url, body, named, allow_private=endpoint.allow_private)


def send_again(delivery: WebhookDelivery) -> None:
    """Has it sent with the next round, and from the first delay on, whatever became of it before."""
    type(delivery).objects.filter(pk=delivery.pk).update(
        state=State.WAITING, attempts=0, next_attempt_at=timezone.now(), delivered_at=None
    )


def _take(delivery: WebhookDelivery) -> bool:
    """One conditional update: whoever changes the row sends it."""
    mine = WebhookDelivery.objects.filter(pk=delivery.pk, state=State.WAITING, next_attempt_at=delivery.next_attempt_at)
    taken = mine.update(attempts=F("attempts") + 1, next_attempt_at=timezone.now() + LEASE)
    if taken:
        delivery.refresh_from_db()
    return bool(taken)


def _note(delivery: WebhookDelivery, answer: Answer, *, given_up: bool) -> None:
    now = timezone.now()
    changes: dict[str, Any] = {"last_status": answer.status, "last_error": answer.error}
    if answer.is_success:
        changes |= {"state": State.DELIVERED, "delivered_at": now}
    elif given_up or delivery.attempts > len(DELAYS):
        changes |= {"state": State.GIVEN_UP}
        logger.warning("webhook %s to %s is given up: %s", delivery.message_id, delivery.endpoint, answer.error)
    else:
        delay = DELAYS[delivery.attempts - 1] * random.uniform(1 - JITTER, 1 + JITTER)  # noqa: S311  not a secret
        changes |= {"next_attempt_at": now + timedelta(seconds=delay)}
    WebhookDelivery.objects.filter(pk=delivery.pk, state=State.WAITING).update(**changes)
