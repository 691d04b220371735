"""Gold items: what somebody who knows has decided becomes the right answer, and others are asked it to measure them."""

from __future__ import annotations

from rl.base.errors import UsageError
from rl.models import Claim, GoldItem, RatingQueue


def make_gold(claim: Claim, created_by: str) -> GoldItem:
    """The right answer is the decision of ``claim``; it replaces an earlier one. Raises UsageError for an item that is not
    decided, and for a queue that asks for edited answers: two people never write the same."""
    if claim.queue.rubric == RatingQueue.Rubric.EDIT:
        raise UsageError(f"the queue {claim.queue.name} asks for edited answers, of which none is the right one")
    if claim.state != Claim.State.DECIDED:
        raise UsageError("decide the item first: your decision becomes the right answer")
    answer = {
        "value": claim.decision.get("value"),
        "choice": claim.decision.get("choice", ""),
        "created_by": created_by,
    }
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
