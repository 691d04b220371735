"""Feedback that no person gave by hand is held back: it is kept, is not current, and so teaches nothing, until somebody has
looked at it.

Looked at is what people do on these pages and with widgets. What servers and importers send is never a burst. A look comes
once a minute, so what a burst says may count for a minute before it is held back, and in a training that begins just then.

Names cost nothing, so a look goes through the raters, then the addresses that several raters share, then the answers that
several judged by a token. A quarantine of such a group is of a rater ``address:…`` or ``answer:…``: nobody who rates by hand
can be named so."""

from collections import Counter
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Final

from django.db import transaction
from django.db.models import Count, Max, Q, QuerySet
from django.utils import timezone

from rl.base.errors import UsageError
from rl.collect.feedback.rating_rows import await_reward, lock_traces, newest_ratings, target_of
from rl.models import Agent, ApiKey, AuditEvent, Feedback, Quarantine
from rl.operations import audit
from rl.raters.bursts import SAME_TEXTS, Act, reasons

WINDOW: Final = timedelta(hours=1)
"""How far back a look sees."""
ADDRESS_LASTS: Final = timedelta(days=1)
"""The hash of an address is another one by then."""
NEWEST: Final = 2000
"""Decisions of one rater that a look reads at most."""
_BY_HAND = Q(source__in=("rating_page", "trace_page", "try_page")) | Q(api_key__kind=ApiKey.Kind.PUBLISHABLE)
_GIVEN = ~Q(kind__in=(Feedback.Kind.RETRACTION, Feedback.Kind.OUTCOME))
_ADDRESS, _ANSWER = "address:", "answer:"
_KINDS: Final = (
    ("", "rater", Q()),
    (_ADDRESS, "address", ~Q(address="")),
    (_ANSWER, "trace", Q(api_key__needs_tokens=True)),
)
"""What a name begins with, the column with the rest of it, and what else must hold."""


def look(now: datetime | None = None) -> list[Quarantine]:
    """Holds back what came since the last look of raters who are held back already, and opens new quarantines, which are
    returned."""
    for row in Quarantine.objects.filter(released_at=None):
        if row.rater.startswith(_ADDRESS) and row.created_at < timezone.now() - ADDRESS_LASTS:
            continue
        with transaction.atomic():
            _hold(row, _since(row.agent_id, row.rater, row.created_at).filter(is_current=True))
    since = (now or timezone.now()) - WINDOW
    held = set(Quarantine.objects.filter(released_at=None).values_list("agent", "rater"))
    opened = (_look_at(agent, rater, since) for agent, rater in _busy(since) if (agent, rater) not in held)
    return [row for row in opened if row is not None]


def _busy(since: datetime) -> Iterator[tuple[int, str]]:
    """Agents, and who has judged enough of their answers to be looked at: the groups after what was held of the raters."""
    rows = Feedback.objects.filter(_BY_HAND, _GIVEN, created_at__gte=since, quarantine=None).order_by()
    for beginning, column, condition in _KINDS:
        groups = rows.filter(condition).values_list("agent", column).annotate(number=Count("pk"))
        for agent, name, _ in groups.filter(number__gte=SAME_TEXTS):
            yield agent, f"{beginning}{name}"


def _look_at(agent_id: int, rater: str, since: datetime) -> Quarantine | None:
    """Whoever released something of the agent has seen what was said of it until then; of a rater only what he said."""
    seen = Quarantine.objects.filter(agent=agent_id, **({} if _is_group(rater) else {"rater": rater}))
    released = seen.aggregate(at=Max("released_at"))["at"]
    recent = _since(agent_id, rater, max(filter(None, (since, released)))).filter(quarantine=None)
    rows = list(recent.order_by("-created_at")[:NEWEST])
    others = Counter() if rater.startswith(_ANSWER) else _others(agent_id, rater)  # a good answer is good to all
    why = reasons(list(map(_act, rows)), others)
    if not why or (_is_group(rater) and len({event.rater for event in rows}) < 2):
        return None
    agent = Agent.objects.get(pk=agent_id)
    with transaction.atomic():
        row, is_new = Quarantine.objects.get_or_create(
            agent=agent, rater=rater, released_at=None, defaults={"reason": "; ".join(why)[:300]}
        )
        if not is_new:  # another look was faster
            return None
        first = min(event.created_at for event in rows)
        count = _hold(row, _since(agent_id, rater, first).filter(is_current=True))
        audit.record(audit.Action.QUARANTINED, row, agent=agent, quarantine=row.pk, count=count, reason=row.reason)
    return row


def _is_group(rater: str) -> bool:
    return rater.startswith((_ADDRESS, _ANSWER))


def _of(rater: str) -> Q:
    """What he said, or what those of a group said."""
    beginning, column, condition = next(kind for kind in reversed(_KINDS) if rater.startswith(kind[0]))
    return condition & Q(**{column: rater.removeprefix(beginning)})


def _since(agent_id: int, rater: str, since: datetime) -> QuerySet[Feedback]:
    return Feedback.objects.filter(_BY_HAND, _GIVEN, _of(rater), agent=agent_id, created_at__gte=since)


def _act(event: Feedback) -> Act:
    value = event.choice or ("" if event.value is None else f"{event.value:g}")
    return Act(event.rated_at.timestamp(), event.created_at.timestamp(), value, event.text or event.notes)


def _others(agent_id: int, rater: str) -> Counter[str]:
    """How often others say which value of this agent's answers."""
    rows = Feedback.objects.filter(_GIVEN, ~_of(rater), agent=agent_id, is_current=True).order_by()
    counts: Counter[str] = Counter()
    for value, choice, number in rows.values_list("value", "choice").annotate(number=Count("pk")):
        counts[choice or ("" if value is None else f"{value:g}")] += number
    return counts


def _hold(row: Quarantine, events: QuerySet[Feedback]) -> int:
    ids = list(events.order_by().values_list("pk", "trace_id"))
    for part in Feedback.by_ids(pk for pk, _ in ids):
        part.filter(is_current=True).update(is_current=False, quarantine=row)
    traces = list({trace for _, trace in ids})
    for at in range(0, len(traces), 500):
        await_reward(traces[at : at + 500])
    return len(ids)


def release(row: Quarantine, by: str) -> int:
    """Makes the feedback count again, save for ratings after which the rater has rated the same answer anew or taken it
    back; how many count. Raises UsageError where it was released before."""
    with transaction.atomic():
        won = Quarantine.objects.filter(pk=row.pk, released_at=None).update(
            released_at=timezone.now(), released_by=by[:200]
        )
        if not won:
            raise UsageError(f"the feedback of {row.rater} was released before")
        ids = list(Feedback.objects.filter(quarantine=row).order_by().values_list("pk", flat=True))
        count = sum(map(_give_back, Feedback.by_ids(ids)))
        audit.record(audit.Action.RELEASED, row, agent=row.agent, quarantine=row.pk, count=count)
    return count


def _give_back(part: QuerySet[Feedback]) -> int:
    events = list(part)
    lock_traces({event.trace_id for event in events})
    ratings = [event for event in events if event.kind == Feedback.Kind.RATING]
    newest = newest_ratings([target_of(event) for event in ratings]) if ratings else {}
    good = [event.pk for event in ratings if newest[target_of(event)].pk == event.pk]
    others = [event.pk for event in events if event.kind != Feedback.Kind.RATING]
    retracted = Feedback.objects.filter(retracts__in=others).values_list("retracts", flat=True)
    good += sorted(set(others) - set(retracted))
    part.update(quarantine=None)
    Feedback.objects.filter(pk__in=good).update(is_current=True)
    await_reward({event.trace_id for event in events})
    return len(good)


def keep(row: Quarantine, by: str) -> None:
    """Somebody has looked, and it stays held back: so do later ratings of the same rater. Raises UsageError where it was
    released before."""
    if not Quarantine.objects.filter(pk=row.pk, released_at=None).exists():
        raise UsageError(f"the feedback of {row.rater} was released before")
    audit.record(audit.Action.QUARANTINED, row, agent=row.agent, quarantine=row.pk, kept_by=by)


def list_held() -> Iterator[tuple[Quarantine, int, str]]:
    """Each open quarantine, how many events it holds, and who has looked and kept it; empty for nobody."""
    rows = Quarantine.objects.filter(released_at=None).select_related("agent").annotate(held=Count("feedback"))
    kept = AuditEvent.objects.filter(action=audit.Action.QUARANTINED, details__has_key="kept_by").order_by("at")
    by = {details["quarantine"]: details["kept_by"] for details in kept.values_list("details", flat=True)}
    return ((row, row.held, by.get(row.pk, "")) for row in rows.order_by("-created_at"))
