"""Which items are a rater's own for now. A claim is made, renewed or taken up again in one transaction."""

import hashlib
from collections import Counter
from collections.abc import Collection, Iterable
from datetime import datetime, timedelta
from operator import attrgetter
from typing import Any

from django.db import connection, transaction
from django.db.models import Count, Exists, OuterRef, Q, QuerySet
from django.utils import timezone

from rl.models import AnswerPair, Claim, GoldItem, RatingQueue, Trace
from rl.queues.items import asks_about_pairs, in_order, is_taken, item_of, items_left, sides_of

MOST = 20
"""Claims that one request gets or holds."""
_Purpose, _State = Claim.Purpose, Claim.State
_KEY = ("trace_id", "other_trace_id", "purpose")
_KEY_OF = attrgetter(*_KEY)
_LATELY = 0.1
"""Part of its time that a claim may have behind it and need not be renewed."""
Key = tuple[Any, ...]
"""What tells the claims of a rater in a queue apart: the values of _KEY."""


def next_claims(
    queue: RatingQueue, rater: str, *, want: int, holding: Collection[int] = (), wanted: Q | None = None
) -> list[Claim]:
    """Up to ``want`` that are not in ``holding``: his open ones, then new ones, then those that he skipped, the longest ago
    first. ``holding``: what the page has already; renewed. ``wanted``: what must hold of an item's first trace.

    Of a closed queue nothing new is handed out."""
    return read_claims(queue, rater, take_claims(queue, rater, want, holding, wanted))


def take_claims(
    queue: RatingQueue, rater: str, want: int, holding: Collection[int], wanted: Q | None, has_decided: bool = False
) -> list[Key]:
    """What ``next_claims`` reads then: answers may be megabytes, and whoever writes waits for nobody to read them.
    ``has_decided``: just now, so that he has fewer than he had."""
    held, want = list(holding)[:MOST], min(want, MOST)
    if not held and not has_decided and (as_new := _as_good_as_new(queue, rater, want, wanted)):
        return as_new
    with transaction.atomic(savepoint=False):
        lock_for_claims(queue)
        of_rater = Claim.objects.filter(queue=queue, rater=rater).order_by()
        mine = of_rater.filter(~is_lost(queue, rater))
        if held:
            mine.filter(pk__in=held, state=_State.CLAIMED).update(**_renewal_of(queue))
        if queue.closed_at is not None or want <= 0:
            return []
        numbers = Counter(dict(of_rater.values("state").annotate(number=Count("pk")).values_list("state", "number")))
        rows = mine.exclude(pk__in=held).filter(_of_claims(wanted))
        keys = _renew(queue, rows.filter(state=_State.CLAIMED).order_by("pk")[:want]) if numbers[_State.CLAIMED] else []
        new = _new_claims(queue, rater, want - len(keys), wanted, numbers)
        skipped = rows.filter(state=_State.SKIPPED).order_by("decided_at", "pk")[: want - len(keys) - len(new)]
        return [*keys, *new, *(_renew(queue, skipped) if numbers[_State.SKIPPED] else [])]


def _as_good_as_new(queue: RatingQueue, rater: str, want: int, wanted: Q | None) -> list[Key]:
    """What he has already, where that is all and was renewed lately: nothing is written, and nobody waits."""
    if queue.closed_at is not None or want <= 0:
        return []
    lately = Q(state=_State.CLAIMED, expires_at__gt=lock_end(queue, passed=_LATELY))
    rows = Claim.objects.filter(~is_lost(queue, rater), _of_claims(wanted), lately, queue=queue, rater=rater)
    keys = list(rows.order_by("pk").values_list(*_KEY)[:want])
    return keys if len(keys) == want else []


def lock_for_claims(queue: RatingQueue) -> None:
    """Whoever claims in a queue where an item is for some raters only waits until the transaction ends."""
    if queue.raters_per_item is not None and connection.features.has_select_for_update:
        RatingQueue.objects.select_for_update(no_key=True).values_list("pk").get(pk=queue.pk)


def is_lost(queue: RatingQueue, rater: str) -> Q:
    """Claims of this rater whose item others have taken since their lock ended."""
    item = item_of(queue)
    return Q(purpose=_Purpose.ITEM) & is_taken(queue, rater, **{item: OuterRef(item)})


def lock_end(queue: RatingQueue, passed: float = 0.0) -> datetime:
    """When a claim ends that is made or renewed now, or was when a part of the time had ``passed``."""
    return timezone.now() + timedelta(seconds=queue.lock_seconds * (1 - passed))


def _of_claims(wanted: Q | None) -> Q:
    return Q(trace__in=Trace.objects.filter(wanted).order_by()) if wanted else Q()


def _renewal_of(queue: RatingQueue) -> dict[str, Any]:
    return {"state": _State.CLAIMED, "expires_at": lock_end(queue), "decided_at": None}


def _renew(queue: RatingQueue, claims: QuerySet[Claim]) -> list[Key]:
    rows, lately = list(claims.values_list("pk", "state", "expires_at", *_KEY)), lock_end(queue, passed=_LATELY)
    if due := [pk for pk, state, ends, *_ in rows if state != _State.CLAIMED or ends < lately]:
        Claim.objects.filter(pk__in=due).update(**_renewal_of(queue))
    return [tuple(key) for _, _, _, *key in rows]


def _new_claims(queue: RatingQueue, rater: str, want: int, wanted: Q | None, numbers: Counter[str]) -> list[Key]:
    items = _take(in_order(queue, items_left(queue, rater, wanted), rater), want)
    claims: list[Claim] = []
    waiting: list[Claim] = []
    while items and len(claims) < want:
        purpose = draw_purpose(queue, rater, numbers.total() + len(claims), numbers[_State.DECIDED])
        new = None
        if purpose != _Purpose.ITEM:  # which one it is depends on those that he has
            waiting = _save(queue, rater, waiting)
            new = _gold(queue, rater) if purpose == _Purpose.GOLD else _repeat(queue, rater)
        claims.append(new or _claim_of(queue, rater, items.pop(0)))
        waiting.append(claims[-1])
    _save(queue, rater, waiting)
    return list(map(_KEY_OF, claims))


def _take(parts: Iterable[QuerySet[Any]], want: int) -> list[Any]:
    items: dict[Any, Any] = {}
    for rows in parts if want > 0 else ():
        for item in rows.only("pk", *(("left", "right") if rows.model is AnswerPair else ()))[:want]:
            if len(items) < want:
                items.setdefault(item.pk, item)
        if len(items) == want:
            break
    return list(items.values())


def _claim_of(queue: RatingQueue, rater: str, item: Trace | AnswerPair) -> Claim:
    if isinstance(item, Trace):
        return Claim(trace_id=item.pk)
    swapped = draw(queue, rater, f"side {item.pk}") < 0.5
    return Claim(trace_id=item.left_id, other_trace_id=item.right_id, pair_id=item.pk, swapped=swapped)


def _save(queue: RatingQueue, rater: str, claims: list[Claim]) -> list[Claim]:
    """Those that another window of the same rater has saved meanwhile stay as they are. An empty list."""
    for claim in claims:
        claim.queue, claim.rater, claim.expires_at = queue, rater, lock_end(queue)
    Claim.objects.bulk_create(claims, ignore_conflicts=True)
    return []


def read_claims(queue: RatingQueue, rater: str, keys: list[Key]) -> list[Claim]:
    """With their answers, in this order."""
    rows = Claim.objects.filter(queue=queue, rater=rater, trace__in={key[0] for key in keys}).order_by()
    claims = {_KEY_OF(claim): claim for claim in rows.select_related(*sides_of(queue))}
    return [claims[key] for key in keys if key in claims]


NEVER_BEFORE = 5
"""Decisions of his own in the queue, until which a rater gets neither."""


def draw(queue: RatingQueue, rater: str, what: object) -> float:
    """From 0 to 1, 1 excluded: the same queue, rater and number always draw the same."""
    digest = hashlib.sha256(f"{queue.pk}:{rater}:{what}".encode()).digest()
    return int.from_bytes(digest[:8]) / 2**64


def draw_purpose(queue: RatingQueue, rater: str, number: int, decided: int) -> Claim.Purpose:
    """What his claim of this ``number`` is for: counted from 0 in the queue, after so many decisions."""
    chance = draw(queue, rater, number)
    if decided < NEVER_BEFORE or chance >= queue.gold_share + queue.repeat_share:
        return _Purpose.ITEM
    return _Purpose.GOLD if chance < queue.gold_share else _Purpose.REPEAT


def _gold(queue: RatingQueue, rater: str) -> Claim | None:
    """An item whose right answer is known. Not saved yet; None where there is none that he has not had."""
    had = Claim.objects.filter(queue=queue, rater=rater, trace=OuterRef("trace"), purpose=_Purpose.GOLD)
    rows = GoldItem.objects.filter(~Exists(had), queue=queue, other_trace__isnull=not asks_about_pairs(queue))
    known = list(rows.exclude(created_by=rater).order_by("pk")[:200])
    if not known:
        return None
    item = min(known, key=lambda gold: draw(queue, rater, f"gold {gold.pk}"))
    swapped = item.other_trace_id is not None and draw(queue, rater, f"side {item.pk}") < 0.5
    return Claim(trace_id=item.trace_id, other_trace_id=item.other_trace_id, purpose=_Purpose.GOLD, swapped=swapped)


def _repeat(queue: RatingQueue, rater: str) -> Claim | None:
    """What he decided longest ago; a pair the other way round. As ``_gold``."""
    mine = Claim.objects.filter(queue=queue, rater=rater)
    had = mine.filter(trace=OuterRef("trace"), purpose=_Purpose.REPEAT)
    first = mine.filter(~Exists(had), purpose=_Purpose.ITEM, state=_State.DECIDED).order_by("decided_at").first()
    if first is None:
        return None
    return Claim(
        trace_id=first.trace_id,
        other_trace_id=first.other_trace_id,
        pair_id=first.pair_id,
        purpose=_Purpose.REPEAT,
        swapped=first.other_trace_id is not None and not first.swapped,
    )
