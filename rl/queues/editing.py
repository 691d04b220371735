"""Queues are made, changed, closed: always whole, checked and on record. Gold items: what somebody who knows has decided
becomes the right answer, and others are asked it to measure them."""

import secrets
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from django.core import signing
from django.db import transaction
from django.utils import timezone
from django.utils.formats import date_format
from django.utils.translation import gettext

from rl.base.errors import UsageError
from rl.models import BASE, Agent, AuditEvent, Claim, GoldItem, Invite, ModelVersion, RatingQueue
from rl.operations import audit
from rl.queues.filters import read_filters

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
        return gettext(
            "This invitation was taken back. Ask whoever sent it to you for a new one; what you have rated is kept."
        )
    if given.expires_at <= timezone.now():
        text = gettext("This invitation ended on {day}. Ask for a new one; what you have rated is kept.")
        return text.format(day=date_format(given.expires_at, gettext("d F Y")))
    if given.queue.closed_at is not None:
        return gettext("This queue is closed: there is nothing left to rate. Thank you; what you have rated is kept.")
    return ""


def move_to_new_device(given: Invite) -> str:
    """The name of the browser that may use the link from now on; no other may."""
    device = secrets.token_hex(16)
    Invite.objects.filter(pk=given.pk).update(device=device, last_used_at=timezone.now())
    return device


ANSWERS, PAIRS, LABELS = "answers", "pairs", "labels"
BUILT_IN: dict[str, dict[str, Any]] = {
    ANSWERS: {"rubric": RatingQueue.Rubric.THUMBS},
    PAIRS: {"rubric": RatingQueue.Rubric.PAIR, "raters_per_item": 1},
    LABELS: {
        "rubric": RatingQueue.Rubric.THUMBS,
        "raters_per_item": 1,
        "filters": {"rated": False},
        "instructions": "Answers that nobody has rated yet.",
    },
}
"""Name to the fields in which a queue differs from an empty one."""


def queue_of(agent: Agent, name: str = ANSWERS) -> RatingQueue | None:
    """The agent's queue of this name, in whatever case; None where it has none of it."""
    queue = RatingQueue.objects.filter(agent=agent, name__iexact=name).first()
    if queue is None and name in BUILT_IN:
        queue, _ = RatingQueue.objects.get_or_create(agent=agent, name=name, defaults=BUILT_IN[name])
    if queue is not None:
        queue.agent = agent
    return queue


def open_queues(agents: Sequence[Agent]) -> dict[Agent, list[RatingQueue]]:
    """``answers`` comes first, then the others by name. One query, some for an agent that nobody has rated."""
    of_agent: dict[int, list[RatingQueue]] = {agent.pk: [] for agent in agents}
    for queue in RatingQueue.objects.filter(agent__in=of_agent):
        of_agent[queue.agent_id].append(queue)
    return {agent: _in_order(agent, of_agent[agent.pk]) for agent in agents}


def _in_order(agent: Agent, queues: Sequence[RatingQueue]) -> list[RatingQueue]:
    names = {queue.name.lower() for queue in queues}
    new = [queue for name in (ANSWERS, PAIRS) if name not in names and (queue := queue_of(agent, name))]
    opened = [queue for queue in (*queues, *new) if queue.closed_at is None]
    for queue in opened:
        queue.agent = agent
    return sorted(opened, key=lambda queue: (queue.name != ANSWERS, queue.name))


MOST_TAGS, LONGEST_TAG = 20, 50
"""Tags of a queue's own, and the characters of one."""


def save_queue(queue: RatingQueue) -> None:
    """Raises UsageError and ValidationError, and then stores nothing."""
    filters = read_filters(queue.filters)
    versions = ModelVersion.objects.filter(agent=queue.agent).values_list("name", flat=True)
    if unknown := sorted({name for name in filters.versions if name != BASE} - set(versions)):
        raise UsageError(f"filters.versions: {queue.agent} has no version {unknown[0]}")
    if len(queue.tags) > MOST_TAGS or not all(0 < len(tag) <= LONGEST_TAG for tag in queue.tags):
        raise UsageError(f"tags: at most {MOST_TAGS} of 1 to {LONGEST_TAG} characters")
    before = RatingQueue.objects.filter(pk=queue.pk).values_list("rubric", flat=True).first()
    if before not in (None, queue.rubric) and queue.claims.exists():  # one scale cannot be read on another
        raise UsageError(f"rubric: people have rated by {before!r} here; make another queue for {queue.rubric!r}")
    queue.full_clean()
    with transaction.atomic():
        queue.save()
        audit.record(AuditEvent.Action.CHANGED, f"rating queue {queue.name}", agent=queue.agent)


def close_queue(queue: RatingQueue, *, closed: bool = True) -> None:
    """A closed one hands out nothing more; what raters have open they may still decide."""
    with transaction.atomic():
        queue.closed_at = timezone.now() if closed else None
        queue.save(update_fields=["closed_at"])
        audit.record(AuditEvent.Action.CHANGED, f"rating queue {queue.name}", agent=queue.agent, closed=closed)


def make_gold(claim: Claim, created_by: str) -> GoldItem:
    """The right answer is the decision of ``claim``; it replaces an earlier one. Raises UsageError for an item that is not
    decided, and for a queue that asks for edited answers: two people never write the same."""
    if claim.queue.rubric == RatingQueue.Rubric.EDIT:
        raise UsageError(f"the queue {claim.queue.name} asks for edited answers, of which none is the right one")
    if claim.state != Claim.State.DECIDED:
        raise UsageError("decide the item first: your decision becomes the right answer")
    decision = claim.decision
    answer = {"value": decision.get("value"), "choice": decision.get("choice", ""), "created_by": created_by}
    made, _ = GoldItem.objects.update_or_create(
        queue=claim.queue, trace_id=claim.trace_id, other_trace_id=claim.other_trace_id, defaults=answer
    )
    return made


def gold_of(claim: Claim) -> GoldItem | None:
    rows = GoldItem.objects.filter(queue=claim.queue, trace_id=claim.trace_id)
    return rows.filter(other_trace_id=claim.other_trace_id).first()


def remove_gold(queue: RatingQueue, number: str) -> None:
    """What others were asked of it stays. Raises UsageError."""
    rows = queue.gold.filter(pk=number) if number.isascii() and number.isdecimal() and len(number) < 19 else None
    if not rows or not rows.delete()[0]:
        raise UsageError(f"this queue has no gold item {number[:20]!r}; open the page again")
