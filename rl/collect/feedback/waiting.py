"""Ratings of answers that are not here yet: kept, and recorded as soon as the answer comes.

Command Center's know their answer by its external id, others by the id that it will have here, as a token says. Of either
kind a bounded number waits, for as long as a token is valid."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, NamedTuple
from uuid import UUID

from django.db import IntegrityError, connection, transaction
from django.db.models import Count, Q, QuerySet
from django.utils import timezone

from rl.base.errors import UsageError
from rl.base.slugs import check_name, one_line
from rl.collect.feedback import tokens, write
from rl.collect.feedback.events import rating
from rl.models import Agent, ApiKey, Feedback, Trace, WaitingRating

MOST, MOST_OF_ANSWER = 10_000, 100
"""Ratings that wait, of each of the two kinds: altogether, and for one answer."""
SOURCE: Final = "api"
TOO_MANY: Final = "too many ratings wait for answers that are not here; send the answers first, or come again later"
_OPINION: Final = ("scale", "value", "notes", "rated_at", "address")


class NoRoom(UsageError):
    """Too many wait."""


class Arrived(UsageError):
    """The answer is here: nothing need wait for it."""


@dataclass(frozen=True, slots=True)
class Early:
    """``tags`` and ``notes`` within the limits of ``rl.collect.limits``; ``rated_at`` not in the future."""

    entry_id: str
    rater: str
    value: float
    """As given."""
    rated_at: datetime
    scale: str = Feedback.Scale.THUMB
    tags: Sequence[str] = field(default_factory=tuple)
    notes: str = ""
    by_id: bool = False
    address: str = ""
    raters: int | None = None
    """How many its token lets judge the answer; None: any number."""

    def __post_init__(self) -> None:
        """Raises UsageError for a name that could not be recorded."""
        check_name(self.rater, "the rater's name")


class Kept(NamedTuple):
    row: WaitingRating
    """What waits now; the latest ``rated_at`` wins."""
    created: bool
    """It is the rater's first of this answer."""


def keep(ratings: Sequence[Early], agent_id: int | None, api_key: ApiKey | None) -> list[Kept | UsageError]:
    """What becomes of each: Arrived (by id only), NoRoom and TokenSpent are for these alone. ``ratings``: all by id or none.
    Raises UsageError where the agent was deleted."""
    if not ratings:
        return []
    try:
        return _keep(ratings, agent_id, api_key)
    except IntegrityError:  # without an agent two calls may keep the same at the same moment
        return _keep(ratings, agent_id, api_key)


@transaction.atomic
def _keep(ratings: Sequence[Early], agent_id: int | None, api_key: ApiKey | None) -> list[Kept | UsageError]:
    """In few statements, however many there are: nobody else may write to SQLite meanwhile."""
    if agent_id is not None and not _serve_alone([agent_id]):
        raise UsageError("the agent of the answer was deleted")
    room, now = _Room(ratings, agent_id), timezone.now()
    here = WaitingRating.objects.select_for_update().filter(agent=agent_id, by_id=ratings[0].by_id)
    rows = {(row.entry_id, row.rater): row for row in here.filter(entry_id__in={early.entry_id for early in ratings})}
    outcomes: list[Kept | UsageError] = []
    new: list[WaitingRating] = []
    changed: list[WaitingRating] = []
    for early in ratings:
        if refusal := room.refusal(early):
            outcomes.append(refusal)
            continue
        about = early.entry_id, early.rater
        if is_new := about not in rows:
            rows[about] = WaitingRating(
                agent_id=agent_id, api_key=api_key, entry_id=early.entry_id, by_id=early.by_id, rater=early.rater
            )
        row = rows[about]
        if is_new or early.rated_at >= row.rated_at:
            for name in _OPINION:
                setattr(row, name, getattr(early, name))
            row.tags, row.updated_at = list(early.tags), now
            (new if is_new else changed).append(row)
        outcomes.append(Kept(row, is_new))
    WaitingRating.objects.bulk_create(new)
    WaitingRating.objects.bulk_update(changed, [*_OPINION, "tags", "updated_at"])
    return outcomes


class _Room:
    """What was free when ``ratings`` came, once those are gone whose answer never did; less what was let in since."""

    def __init__(self, ratings: Sequence[Early], agent_id: int | None) -> None:
        WaitingRating.objects.filter(updated_at__lt=timezone.now() - tokens.validity()).delete()
        ids = [early.entry_id for early in ratings if early.by_id]
        self._arrived = {str(pk) for pk in Trace.objects.filter(pk__in=ids).values_list("pk", flat=True)} if ids else ()
        rows = WaitingRating.objects.filter(by_id=bool(ids)).order_by()
        mine = rows.filter(agent=agent_id, entry_id__in={early.entry_id for early in ratings})
        self._free = MOST - rows.count()
        self._here = set(mine.values_list("entry_id", "rater"))
        self._of_answer = dict(mine.values_list("entry_id").annotate(number=Count("pk")))
        by_token = mine.filter(api_key__needs_tokens=True)
        self._by_token = dict(by_token.values_list("entry_id").annotate(number=Count("pk")))

    def refusal(self, early: Early) -> UsageError | None:
        name = early.entry_id
        if name in self._arrived:
            return Arrived()
        if (name, early.rater) in self._here:
            return None
        if early.raters is not None and self._by_token.get(name, 0) >= early.raters:
            return tokens.TokenSpent(early.raters)
        if self._free <= 0 or self._of_answer.get(name, 0) >= MOST_OF_ANSWER:
            return NoRoom(TOO_MANY)
        self._free -= 1
        self._here.add((name, early.rater))
        for counts in (self._of_answer, self._by_token):
            counts[name] = counts.get(name, 0) + 1
        return None


def _serve_alone(agents: Iterable[int]) -> list[Agent]:
    """Whoever keeps or delivers what waits for these agents does so alone until his transaction ends: who brings an answer
    sees what was kept, and who keeps a rating sees the answer. Those of the agents that are there."""
    return list(Agent.objects.select_for_update(no_key=True).filter(pk__in=agents).order_by("pk").only("pk"))


def drop(trace_id: str, agent_id: int, rater: str) -> bool:
    """Whether the rater's rating waited."""
    rows = WaitingRating.objects.filter(by_id=True, entry_id=trace_id, agent=agent_id, rater=rater)
    return rows.delete()[0] > 0


def waiting_for(agent_id: int | None) -> QuerySet[WaitingRating]:
    """Command Center's that an answer of the agent could settle; None: all."""
    rows = WaitingRating.objects.filter(by_id=False)
    return rows if agent_id is None else rows.filter(Q(agent=agent_id) | Q(agent__isnull=True))


def deliver(traces: Iterable[Trace], source: str) -> int:
    """Records what waits for these answers by their external ids, some hundred at most; how many ratings that were."""
    return _deliver({trace.external_id or "": trace for trace in traces}, source, by_id=False)


def deliver_by_id(traces: Mapping[UUID, Trace]) -> int:
    """Records what waits for these answers, which are stored, by the ids that tokens gave them; how many ratings that
    were."""
    return _deliver({str(trace_id): trace for trace_id, trace in traces.items()}, SOURCE, by_id=True)


def find_awaited(answers: Mapping[UUID, int]) -> list[UUID]:
    """Those answers whose ratings wait. ``answers``: with their agents, for which no other rating is kept until the
    transaction ends."""
    _serve_alone(answers.values())
    rows = WaitingRating.objects.filter(by_id=True, entry_id__in=map(str, answers)).order_by()
    return [UUID(entry_id) for entry_id in rows.values_list("entry_id", flat=True).distinct()]


def _deliver(here: dict[str, Trace], source: str, *, by_id: bool) -> int:
    rows = WaitingRating.objects.filter(entry_id__in=here, by_id=by_id)
    if not here or (connection.vendor == "sqlite" and not rows.exists()):  # where one at a time writes
        return 0
    agents = {trace.agent_id for trace in here.values()}
    of_agents = Q(agent__in=agents) | Q(agent__isnull=True)
    with transaction.atomic():
        _serve_alone(agents)
        locked = rows.filter(of_agents).select_for_update().order_by("rated_at", "id")
        due = [row for row in locked if row.agent_id in (None, here[row.entry_id].agent_id)]
        write.record([event_of(row, here[row.entry_id], source, row.api_key_id) for row in due])
        WaitingRating.objects.filter(pk__in=[row.pk for row in due]).delete()
    return len(due)


def event_of(early: Early | WaitingRating, trace: Trace, source: str, api_key_id: int | None) -> Feedback:
    """The feedback to record, of a rating that has just come or that waited."""
    rater = one_line(early.rater)  # of a row that is older than the rule for names
    opinion = {name: getattr(early, name) for name in ("tags", *_OPINION)}
    return rating(trace, rater=rater, source=source, api_key_id=api_key_id, **opinion)
