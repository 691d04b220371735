"""How far the raters of a queue agree, and with whom and with what each of them does; versions of an agent by the
side-by-side picks of their answers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final

from django.db.models import Q, QuerySet

from rl.base.measurements import Interval
from rl.config.rubrics import ASKED
from rl.models import BASE, Agent, Claim, Feedback, GoldItem, Quarantine, RatingQueue
from rl.models.traces import answered_by
from rl.raters.agreement import Metric, cohens_kappa, krippendorffs_alpha, left_share, percent_agreement

if TYPE_CHECKING:
    from rl.raters.bradley_terry import Standing

MOST: Final = 50_000
"""The newest decisions that a report rests on."""
SHOWN: Final = 50
"""Items that wait to be settled."""
_LOOKED_AT: Final = 500
"""Disputes of which it is asked whether they are settled."""
_NEAR: Final = 0.125
"""Two values on the scale 0 … 1 with at most this between them, half a star, are the same answer."""
Item = tuple[Any, Any]
"""The trace, and the other one of a pair."""
_Value = float | str


@dataclass(frozen=True, slots=True)
class RaterReport:
    name: str
    ratings: int
    agreement: float | None
    """Share of others' ratings of the same items that say the same."""
    gold_right: int
    gold: int
    repeats_same: int
    repeats: int
    left: Interval | None
    """How often the left answer was picked of pairs, whose sides are drawn by lot."""
    is_held: bool

    @property
    def leans(self) -> bool:
        """Towards one side, beyond chance."""
        return self.left is not None and not self.left.low <= 0.5 <= self.left.high


@dataclass(frozen=True, slots=True)
class Dispute:
    trace: Any
    other: Any
    values: tuple[tuple[str, _Value], ...]
    """Rater and what he says."""


@dataclass(frozen=True, slots=True)
class QueueReport:
    items: int
    shared: int
    """Items that two or more rated."""
    percent: float | None
    kappa: float | None
    """Only where two people rate."""
    alpha: float | None
    metric: Metric
    raters: tuple[RaterReport, ...]
    disputes: tuple[Dispute, ...]
    disputed: int
    """All of them, of which ``disputes`` has the first."""


def report(queue: RatingQueue) -> QueueReport:
    """Skips and what is not decided yet say nothing."""
    rows = Claim.objects.filter(queue=queue, state=Claim.State.DECIDED).order_by("-decided_at", "pk")
    rows = rows.only("trace_id", "other_trace_id", "rater", "purpose", "swapped", "decision")
    claims = [claim for claim in rows[:MOST] if _value(claim) is not None]
    items: defaultdict[Item, dict[str, _Value]] = defaultdict(dict)
    for claim in claims:
        if claim.purpose == Claim.Purpose.ITEM:
            items[_item(claim)][claim.rater] = _value(claim)
    shared = {item: ratings for item, ratings in items.items() if len(ratings) > 1}
    disputes = _without_settled([item for item, ratings in shared.items() if len(set(ratings.values())) > 1], claims)
    metric = ASKED[queue.rubric].metric
    raters = sorted({rater for ratings in shared.values() for rater in ratings})
    return QueueReport(
        items=len(items),
        shared=len(shared),
        percent=percent_agreement(shared.values()),
        kappa=cohens_kappa(list(map(itemgetter(*raters), shared.values()))) if len(raters) == 2 else None,
        alpha=krippendorffs_alpha(shared.values(), metric),
        metric=metric,
        raters=tuple(_raters(queue, claims, shared)),
        disputes=tuple(Dispute(*item, tuple(sorted(shared[item].items()))) for item in disputes[:SHOWN]),
        disputed=len(disputes),
    )


def _without_settled(items: list[Item], claims: Iterable[Claim]) -> list[Item]:
    """An adjudicator settles an item by a rating or an edit of his own, given outside of the queue: it is one more vote."""
    raters, newest = {claim.rater for claim in claims}, items[:_LOOKED_AT]
    rows = Feedback.objects.filter(trace__in={trace for trace, _ in newest}, is_current=True).order_by()
    kinds = (Feedback.Kind.RATING, Feedback.Kind.COMPARISON, Feedback.Kind.CORRECTION)
    events = rows.filter(kind__in=kinds).values_list("trace", "rater")
    settled = {trace for trace, rater in events if rater not in raters}
    return [item for item in items if item[0] not in settled]


def _item(claim: Claim | GoldItem) -> Item:
    return claim.trace_id, claim.other_trace_id


def _value(claim: Claim) -> Any:
    """What was decided, as if nothing had been swapped; None of edits."""
    return claim.decision.get("choice") or claim.decision.get("value")


def _raters(
    queue: RatingQueue, claims: Iterable[Claim], shared: Mapping[Item, Mapping[str, _Value]]
) -> Iterator[RaterReport]:
    by_rater: defaultdict[str, list[Claim]] = defaultdict(list)
    for claim in claims:
        by_rater[claim.rater].append(claim)
    gold = {_item(row): row.choice or row.value for row in GoldItem.objects.filter(queue=queue)}
    held = set(Quarantine.objects.filter(agent=queue.agent, released_at=None).values_list("rater", flat=True))
    for name, own in sorted(by_rater.items(), key=lambda entry: (-len(entry[1]), entry[0])):
        yield _one_rater(name, own, shared, gold, name in held)


def _one_rater(
    name: str,
    claims: list[Claim],
    shared: Mapping[Item, Mapping[str, _Value]],
    gold: Mapping[Item, _Value | None],
    is_held: bool,
) -> RaterReport:
    by: defaultdict[str, list[Claim]] = defaultdict(list)
    for claim in claims:
        by[claim.purpose].append(claim)
    first = {_item(claim): _value(claim) for claim in by[Claim.Purpose.ITEM]}
    tests = [_same(_value(claim), gold[_item(claim)]) for claim in by[Claim.Purpose.GOLD] if _item(claim) in gold]
    again = [_same(_value(claim), first[_item(claim)]) for claim in by[Claim.Purpose.REPEAT] if _item(claim) in first]
    agrees = [
        value == ratings[name]
        for ratings in shared.values()
        if name in ratings
        for rater, value in ratings.items()
        if rater != name
    ]
    return RaterReport(
        name=name,
        ratings=len(first),
        agreement=sum(agrees) / len(agrees) if agrees else None,
        gold_right=sum(tests),
        gold=len(tests),
        repeats_same=sum(again),
        repeats=len(again),
        left=left_share(side for claim in claims if (side := _shown_side(claim))),
        is_held=is_held,
    )


def _same(value: _Value, other: _Value | None) -> bool:
    if isinstance(value, str) or isinstance(other, str) or other is None:
        return value == other
    return abs(value - other) <= _NEAR


def _shown_side(claim: Claim) -> str:
    """Where the answer stood that was picked; empty for none."""
    choice = claim.decision.get("choice", "")
    if choice not in ("left", "right"):
        return ""
    return {"left": "right", "right": "left"}[choice] if claim.swapped else choice


_SCORES: Final = {Feedback.Choice.LEFT: 1.0, Feedback.Choice.RIGHT: 0.0}
"""A tie and "both bad" are half a win for both."""


def version_table(agent: Agent) -> list[Standing]:
    """The strongest first. An answer of which nobody knows who gave it counts for nobody."""
    from rl.raters.bradley_terry import Game, rank  # loads numpy, which the website does not at its start

    games = [
        Game(left or BASE, right or BASE, _SCORES.get(Feedback.Choice(choice), 0.5))
        for left_is_known in (True, False)
        for right_is_known in (True, False)
        for left, right, choice in _picks(agent, left_is_known, right_is_known)
    ]
    return rank(games, BASE)


def _picks(agent: Agent, left: bool, right: bool) -> QuerySet[Feedback, tuple[str | None, str | None, str]]:
    """``left``, ``right``: by a version, or by the base model."""
    rows = Feedback.objects.filter(agent=agent, kind=Feedback.Kind.COMPARISON, is_current=True).order_by()
    for side, by_version in (("trace__", left), ("other_trace__", right)):
        known = Q(**{f"{side}model_version__isnull": False})
        rows = rows.filter(known if by_version else answered_by(None, side))
    return rows.values_list("trace__model_version__name", "other_trace__model_version__name", "choice")
