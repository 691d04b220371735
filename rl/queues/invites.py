"""Links that let somebody without an account rate one queue.

The link names a row and is signed; whether it still opens anything is said by the row. One browser at a time uses it: the
last one that was told to go on.
"""

from __future__ import annotations

import secrets
from datetime import timedelta

from django.core import signing
from django.db import transaction
from django.utils import timezone

from rl.base.errors import UsageError
from rl.models import AuditEvent, Invite, RatingQueue
from rl.operations import audit

DAYS = 14
MOST_DAYS = 365
_SIGNER = signing.Signer(salt="rl.queues.invites")


def invite(queue: RatingQueue, name: str, days: int = DAYS, created_by: str = "") -> Invite:
    """Raises UsageError."""
    name = name.strip()
    if not 1 <= len(name) <= 100:
        raise UsageError("the invitation needs a name of 1 to 100 characters: whom it is for")
    if not 1 <= days <= MOST_DAYS:
        raise UsageError(f"an invitation is for 1 to {MOST_DAYS} days, not {days}")
    if queue.closed_at is not None:
        raise UsageError(f"the queue {queue.name} is closed: nobody can be invited to it")
    with transaction.atomic():
        ends = timezone.now() + timedelta(days=days)
        made = Invite.objects.create(queue=queue, name=name, created_by=created_by, expires_at=ends)
        audit.record(
            AuditEvent.Action.INVITED, f"{made.rater} to {queue.name}", agent=queue.agent, name=name, days=days
        )
    return made


def revoke(given: Invite) -> None:
    """From now on the link opens nothing. What was rated with it stays."""
    with transaction.atomic():
        given.revoke()
        audit.record(AuditEvent.Action.CHANGED, f"{given.rater}", agent=given.queue.agent, revoked=True)


def token_of(given: Invite) -> str:
    """What the link has; it can be read, and not be made up."""
    return _SIGNER.sign(str(given.pk))


def invite_of(token: str) -> Invite | None:
    """None for a token that was not made here, or whose row is gone."""
    try:
        pk = int(_SIGNER.unsign(token))
    except (signing.BadSignature, ValueError):
        return None
    return Invite.objects.select_related("queue__agent").filter(pk=pk).first()


def why_refused(given: Invite) -> str:
    """A sentence for whoever was invited; empty where the link is good."""
    if given.revoked_at is not None:
        return "This invitation was taken back. Ask whoever sent it to you for a new one; what you have rated is kept."
    if given.expires_at <= timezone.now():
        return f"This invitation ended on {given.expires_at:%d %B %Y}. Ask for a new one; what you have rated is kept."
    if given.queue.closed_at is not None:
        return "This queue is closed: there is nothing left to rate. Thank you; what you have rated is kept."
    return ""


def move_to_new_device(given: Invite) -> str:
    """The name of the browser that may use the link from now on; no other may."""
    device = secrets.token_hex(16)
    Invite.objects.filter(pk=given.pk).update(device=device, last_used_at=timezone.now())
    return device
