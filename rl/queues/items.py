"""What a queue can ask a rater about: answers, or pairs of them, in the queue's order.

The answers of real use come first, then those of a demo, and episodes last: a training makes thousands of these. Within
each kind the search starts where the last decisions were made, so that it does not walk over all that are done; what it
misses is looked for once nothing else is left."""

import hashlib
from collections.abc import Iterator
from typing import Any
from uuid import UUID

from django.db.models import Case, Count, Exists, IntegerField, Max, Min, OuterRef, Q, QuerySet, Subquery, Value, When
from django.db.models.functions import Coalesce
from django.db.models.lookups import GreaterThanOrEqual
from django.utils import timezone

from rl.collect.traces.episodes import SOURCE as EPISODE
from rl.config.rubrics import ASKED
from rl.demo.load import SOURCE as DEMO
from rl.models import AnswerPair, Claim, Feedback, GoldItem, RatingQueue, Trace
from rl.models.traces import DUEL
from rl.queues.filters import read_filters

RECENT = 20
"""The last decisions that say where to go on."""
LOOKED_AT = 2000
"""The newest answers, where the order is by what no index has."""
UNRATED = 2_000
"""The newest answers, where those are asked about that nobody has rated."""
_KINDS = (~Q(source__in=(DEMO, EPISODE)), Q(source=DEMO), Q(source=EPISODE))
_Order, _State = RatingQueue.Order, Claim.State
Rows = QuerySet[Any]
"""Traces, or pairs where the queue asks about these."""


def asks_about_pairs(queue: RatingQueue) -> bool:
    return ASKED[queue.rubric].asks == "choice"


def item_of(queue: RatingQueue) -> str:
    """The column of a claim with what it is about."""
    return "pair" if asks_about_pairs(queue) else "trace"


def sides_of(queue: RatingQueue) -> tuple[str, ...]:
    """The answers of its claims; others are read when they are needed."""
    return ("trace", "other_trace") if asks_about_pairs(queue) else ("trace",)


def all_items(queue: RatingQueue, rater: str, wanted: Q | None = None) -> Rows:
    """All that the queue ever asks this rater. ``wanted``: what else must hold, written for traces."""
    if asks_about_pairs(queue):
        return _all_pairs(queue, rater, wanted)
    filters = read_filters(queue.filters)
    rows = Trace.objects.filter(filters.condition(), agent=queue.agent_id)
    if filters.rated is False:  # where all are rated, all would be looked through
        rows = rows.filter(pk__in=_newest_keys(queue, UNRATED))
    rows = rows.exclude(Q(response="") | Q(source=DUEL))  # nobody asked for answers that are there to be compared
    gold = GoldItem.objects.filter(queue=queue, trace=OuterRef("pk"))
    return rows.filter(~Exists(gold), wanted or Q()).order_by()


def _newest_keys(queue: RatingQueue, most: int) -> QuerySet[Any]:
    return Trace.objects.filter(agent=queue.agent_id).order_by("-created_at", "id").values("pk")[:most]


def _all_pairs(queue: RatingQueue, rater: str, wanted: Q | None) -> Rows:
    made = (AnswerPair.Origin.SECOND, AnswerPair.Origin.DUEL)
    rows = AnswerPair.objects.filter(agent=queue.agent_id, origin__in=made, drawn_for__in=("", rater))
    wanted_left = read_filters(queue.filters).condition("left__")
    rows = rows.filter(wanted_left, left__response__gt="", right__response__gt="")
    if wanted:
        rows = rows.filter(left__in=Trace.objects.filter(wanted, agent=queue.agent_id).order_by())
    gold = GoldItem.objects.filter(queue=queue, trace=OuterRef("left"), other_trace=OuterRef("right"))
    return rows.filter(~Exists(gold)).order_by()


def items_left(queue: RatingQueue, rater: str, wanted: Q | None = None) -> Rows:
    """Those that he has not rated, skipped or claimed, and that others have left over. Not ordered."""
    item = item_of(queue)
    mine = Claim.objects.filter(queue=queue, rater=rater, purpose=Claim.Purpose.ITEM, **{item: OuterRef("pk")})
    rows = all_items(queue, rater, wanted).filter(~Exists(mine.order_by()))
    if ASKED[queue.rubric].asks == "value":
        kinds = (Feedback.Kind.RATING, Feedback.Kind.CORRECTION)
        rated = Feedback.objects.filter(trace=OuterRef("pk"), rater=rater, kind__in=kinds, is_current=True)
        rows = rows.filter(~Exists(rated.order_by()))
    return rows.filter(~is_taken(queue, rater, **{item: OuterRef("pk")}))


def is_taken(queue: RatingQueue, rater: str, **item: Any) -> Q:
    """So many others have it, or had it, that there is nothing left of it for this rater."""
    if queue.raters_per_item is None:
        return Q(pk__in=[])
    held = Q(state=_State.DECIDED) | Q(state=_State.CLAIMED, expires_at__gt=timezone.now())
    others = Claim.objects.filter(held, queue=queue, purpose=Claim.Purpose.ITEM, **item).exclude(rater=rater).order_by()
    if queue.raters_per_item == 1:
        return Q(Exists(others))
    number = others.values("queue").annotate(number=Count("pk")).values("number")
    return Q(GreaterThanOrEqual(Coalesce(Subquery(number, IntegerField()), 0), queue.raters_per_item))


def in_order(queue: RatingQueue, rows: Rows, rater: str) -> Iterator[Rows]:
    """The rows in parts, each ordered, that follow each other; a later part may have rows of an earlier one again."""
    if asks_about_pairs(queue):
        yield rows.filter(origin=AnswerPair.Origin.DUEL).order_by("pk")  # ids are random
    elif queue.order == _Order.UNCERTAIN:
        yield rows.filter(label_proposal__isnull=False).order_by("label_proposal__confidence", "id")
    elif queue.order == _Order.UNSURE:
        # Among the newest answers only: no column has how sure the model was.
        newest = _newest_keys(queue, LOOKED_AT)
        yield rows.filter(pk__in=newest, details__chosen__share__lt=1).order_by("details__chosen__share", "id")
    elif queue.order == _Order.DISPUTED:
        yield _disputed_items(queue, rows).order_by("-created_at", "id")
    for kind in [Q()] if asks_about_pairs(queue) else _KINDS:
        yield from _from_the_last(queue, rows, rater, kind)
    yield _all_at_once(queue, rows)


def _disputed_items(queue: RatingQueue, rows: Rows) -> Rows:
    ratings = Feedback.objects.filter(agent=queue.agent_id, kind=Feedback.Kind.RATING, is_current=True).order_by()
    spread = ratings.values("trace").annotate(low=Min("value"), high=Max("value"))
    return rows.filter(pk__in=spread.filter(low__lt=0.5, high__gt=0.5).values("trace"))


def _from_the_last(queue: RatingQueue, rows: Rows, rater: str, kind: Q) -> Iterator[Rows]:
    rows, item = rows.filter(kind), item_of(queue)
    last = _last_claims(queue, rater, kind)
    if queue.order == _Order.RANDOM:
        # Ids are random: from a point of the rater's own on, their order is as good as any.
        own = UUID(bytes=hashlib.sha256(f"{queue.pk}:{rater}".encode()).digest()[:16])
        start = last.values_list(item, flat=True).first() or own
        yield rows.filter(pk__gt=start).order_by("pk")
        yield rows.filter(pk__lte=start).order_by("pk")
        return
    times = list(last.values_list(f"{item}__created_at", flat=True)[:RECENT])
    if queue.order == _Order.OLDEST:
        later = rows.filter(created_at__gte=max(times)) if times else rows
        yield later.order_by("created_at", "-id")
    elif times:
        yield rows.filter(created_at__gt=max(times)).order_by("-created_at", "id")
        yield rows.filter(created_at__lte=min(times)).order_by("-created_at", "id")
    else:
        yield rows.order_by("-created_at", "id")


def _all_at_once(queue: RatingQueue, rows: Rows) -> Rows:
    order = {_Order.RANDOM: ("pk",), _Order.OLDEST: ("created_at", "-id")}.get(
        _Order(queue.order), ("-created_at", "id")
    )
    if asks_about_pairs(queue):
        return rows.order_by(*order)
    kinds = [When(kind, then=Value(number)) for number, kind in enumerate(_KINDS)]
    return rows.order_by(Case(*kinds, output_field=IntegerField()), *order)


def _last_claims(queue: RatingQueue, rater: str, kind: Q) -> QuerySet[Claim]:
    claims = Claim.objects.filter(queue=queue, purpose=Claim.Purpose.ITEM, decided_at__isnull=False)
    if queue.raters_per_item is None or queue.order == _Order.RANDOM:
        claims = claims.filter(rater=rater).order_by("-decided_at")
    else:
        claims = claims.order_by("-pk")
    return claims.filter(trace__in=Trace.objects.filter(kind).order_by()) if kind else claims
