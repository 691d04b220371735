"""Items that measure the rater: gold ones, whose right answer is known, and repeats of what he has decided before."""

from __future__ import annotations

from django.db.models import Exists, OuterRef

from rl.models import Claim, GoldItem, RatingQueue
from rl.queues.drawing_lots import draw
from rl.queues.items import asks_about_pairs

NEVER_BEFORE = 5
"""Decisions of his own in the queue, until which a rater gets neither."""
_Purpose = Claim.Purpose


def draw_purpose(queue: RatingQueue, rater: str, number: int, decided: int) -> Claim.Purpose:
    """What his claim of this ``number`` is for: counted from 0 in the queue, after so many decisions."""
    chance = draw(queue, rater, number)
    if decided < NEVER_BEFORE or chance >= queue.gold_share + queue.repeat_share:
        return _Purpose.ITEM
    return _Purpose.GOLD if chance < queue.gold_share else _Purpose.REPEAT


def control(queue: RatingQueue, rater: str, purpose: Claim.Purpose) -> Claim | None:
    """Not saved yet; None where there is none that he has not had."""
    return _gold(queue, rater) if purpose == _Purpose.GOLD else _repeat(queue, rater)


def _gold(queue: RatingQueue, rater: str) -> Claim | None:
    had = Claim.objects.filter(queue=queue, rater=rater, trace=OuterRef("trace"), purpose=_Purpose.GOLD)
    rows = GoldItem.objects.filter(~Exists(had), queue=queue, other_trace__isnull=not asks_about_pairs(queue))
    known = list(rows.exclude(created_by=rater).order_by("pk")[:200])
    if not known:
        return None
    item = min(known, key=lambda gold: draw(queue, rater, f"gold {gold.pk}"))
    swapped = item.other_trace_id is not None and draw(queue, rater, f"side {item.pk}") < 0.5
    return Claim(trace_id=item.trace_id, other_trace_id=item.other_trace_id, purpose=_Purpose.GOLD, swapped=swapped)


def _repeat(queue: RatingQueue, rater: str) -> Claim | None:
    """What he decided longest ago; a pair the other way round."""
    mine = Claim.objects.filter(queue=queue, rater=rater)
    had = mine.filter(trace=OuterRef("trace"), purpose=_Purpose.REPEAT)
    decided = mine.filter(~Exists(had), purpose=_Purpose.ITEM, state=Claim.State.DECIDED).order_by("decided_at")
    first = decided.first()
    if first is None:
        return None
    return Claim(
        trace_id=first.trace_id,
        other_trace_id=first.other_trace_id,
        pair_id=first.pair_id,
        purpose=_Purpose.REPEAT,
        swapped=first.other_trace_id is not None and not first.swapped,
    )
