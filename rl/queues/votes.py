"""What a rater sends: checked, and not stored yet."""

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, NamedTuple, Self, cast
from uuid import UUID

from django.core.exceptions import EmptyResultSet
from django.db import connection
from django.db.models import Q, QuerySet
from django.utils import timezone
from django.utils.dateparse import parse_datetime
from django.utils.translation import gettext, gettext_noop

from rl.base.errors import UsageError
from rl.base.names import require_known
from rl.collect.feedback.answer_forms import judge_text
from rl.config.rubrics import ASKED
from rl.models import AnswerPair, Claim, Feedback, RatingQueue, Trace
from rl.queues.items import all_items, asks_about_pairs, items_left

COUNTED = 1000
"""Progress is counted up to here; beyond, it is said to be more."""
WAITING = 100
"""The same for a list of many queues."""
_QUEUES_AT_ONCE = 10
DECIDED = 10
SHORT = 40
"""Characters of a right answer that is its own label."""
_State = Claim.State


@dataclass(frozen=True, slots=True)
class QueueProgress:
    done: int
    total: int
    text: str
    """The whole line for people."""


def progress(
    queue: RatingQueue, rater: str, wanted: Q | None = None, decisions: Sequence[Claim] | None = None
) -> QueueProgress:
    """``wanted``: what must hold of an item's first trace. ``decisions``: the last ones, where they are at hand. Counts stop
    at COUNTED."""
    mine = Claim.objects.filter(queue=queue, rater=rater)
    if wanted:
        mine = mine.filter(trace__in=Trace.objects.filter(wanted).order_by())
    mine, is_done = mine.order_by(), Q(state=_State.DECIDED)
    done, total = count_each(mine.filter(is_done)[:COUNTED], all_items(queue, rater, wanted)[:COUNTED])
    if total < COUNTED:
        total = done + sum(count_each(mine.exclude(is_done), items_left(queue, rater, wanted)))
    last = last_decisions(queue, rater).only("decided_at") if decisions is None else decisions
    times = [claim.decided_at for claim in last if claim.decided_at]
    text = gettext("{done} of {total}").format(done=done, total=f"{total}{'+' if total == COUNTED else ''}")
    if len(times) > 2 and done < total:  # over the last ten decisions, the newest first
        speed = round((len(times) - 1) * 60 / max((times[0] - times[-1]).total_seconds(), 1))
        text += gettext(" · {speed} a minute").format(speed=speed) if speed else ""
        left = math.ceil((total - done) / speed) if speed and total < COUNTED else 0
        text += gettext(" · about {minutes} min left").format(minutes=left) if left else ""
    return QueueProgress(done, total, text)


class Waiting(NamedTuple):
    items: int
    """That the rater has not decided."""
    is_more: bool
    """Nobody counted further."""
    has_any: bool
    """Whether the queue ever asks something."""


def count_waiting(queues: Sequence[RatingQueue], rater: str) -> dict[int, Waiting]:
    """By the queue's number. A few queries, however many queues there are."""
    compared = AnswerPair.objects.filter(agent__in={queue.agent_id for queue in queues}).order_by()
    with_pairs = set(compared.values_list("agent", flat=True).distinct())
    waiting = {queue.pk: Waiting(0, is_more=False, has_any=False) for queue in queues}
    asked = [queue for queue in queues if queue.agent_id in with_pairs or not asks_about_pairs(queue)]
    most = WAITING if len(asked) > _QUEUES_AT_ONCE else COUNTED
    for start in range(0, len(asked), _QUEUES_AT_ONCE):
        some = asked[start : start + _QUEUES_AT_ONCE]
        numbers = iter(count_each(*(part for queue in some for part in _parts_of(queue, rater, most))))
        for queue, left, opened, any_at_all in zip(some, numbers, numbers, numbers, strict=True):
            waiting[queue.pk] = Waiting(min(left + opened, most), left + opened >= most, bool(any_at_all))
    return waiting


def _parts_of(queue: RatingQueue, rater: str, most: int) -> Iterator[QuerySet[Any]]:
    """What nobody has shown him, what he has not decided, anything."""
    yield items_left(queue, rater)[:most]
    yield Claim.objects.filter(queue=queue, rater=rater).exclude(state=_State.DECIDED).order_by()[:most]
    yield all_items(queue, rater)[:1]


def last_decisions(queue: RatingQueue, rater: str) -> QuerySet[Claim]:
    """Those that can be undone, newest first; skips too."""
    return Claim.objects.filter(queue=queue, rater=rater, decided_at__isnull=False).order_by("-decided_at")[:DECIDED]


def label(claim: Claim, rubric: str) -> str:
    """What the rater decided, as he saw it: ``Good``, ``4 of 5``, ``A``, ``Skipped``, ``billing`` where that is right."""
    if claim.state == _State.SKIPPED:
        return gettext("Skipped")
    decision = claim.decision
    if choice := decision.get("choice"):
        return gettext(_CHOICES[turn(choice) if claim.swapped else choice])
    if text := decision.get("text", ""):
        return text if rubric == RatingQueue.Rubric.THUMBS and len(text) <= SHORT else gettext("Edited")
    value = decision.get("value", 0.0)
    if rubric == RatingQueue.Rubric.THUMBS:
        return gettext("Good") if value > 0.5 else gettext("Bad")
    points = ASKED[rubric].points
    point = round(value * (points - 1)) + 1
    return f"{value:.2g}" if ASKED[rubric].between else gettext("{done} of {total}").format(done=point, total=points)


_CHOICES: dict[str, str] = {
    Feedback.Choice.LEFT: "A",
    Feedback.Choice.RIGHT: "B",
    Feedback.Choice.TIE: gettext_noop("Tie"),
    Feedback.Choice.BOTH_BAD: gettext_noop("Both bad"),
}


def count_each(*rows: QuerySet[Any]) -> list[int]:
    """How many rows each has, in one statement: each alone costs more to compose and to send than to count. A slice counts
    up to its length."""
    counts: list[str] = []
    values: list[Any] = []
    for part in rows:
        try:
            statement, of_part = part.values("pk").query.sql_with_params()
        except EmptyResultSet:
            counts.append("0")
        else:
            counts.append(f"(SELECT count(*) FROM ({statement}) AS rows_{len(counts)})")  # noqa: S608 (Django composed it)
            values += of_part
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {', '.join(counts)}", values)
        return list(cursor.fetchone())


ACTIONS = ("rate", "skip", "undo")
_Choice = Feedback.Choice
_TURNED = {_Choice.LEFT.value: _Choice.RIGHT.value, _Choice.RIGHT.value: _Choice.LEFT.value}
LONGEST_TEXT = 100_000


@dataclass(frozen=True, slots=True)
class QueueVote:
    id: UUID
    """The browser's own; the same again changes nothing."""
    claim: int
    action: Literal["rate", "skip", "undo"]
    value: float | None = None
    """0 … 1, whatever the rubric's scale."""
    choice: str = ""
    """As shown."""
    text: str = ""
    tags: tuple[str, ...] = ()
    notes: str = ""
    at: datetime | None = None

    @classmethod
    def read(cls, given: object) -> Self:
        """From JSON; null is as good as left out. Raises UsageError."""
        if not isinstance(given, Mapping):
            raise UsageError('a decision is an object, such as {"id": "…", "claim": 7, "action": "rate", "value": 1}')
        values = {name: value for name, value in given.items() if value is not None}
        for name in values:
            require_known("field", name, _FIELDS, section="decision")
        action = values.get("action", "rate")
        require_known("action", action if isinstance(action, str) else repr(action), ACTIONS)
        return cls(
            id=_read_id(values.get("id")),
            claim=_read_number(values.get("claim")),
            action=cast("Literal['rate', 'skip', 'undo']", action),
            value=_read_value(values.get("value")),
            choice=_read_text(values, "choice", 16),
            text=_read_text(values, "text", LONGEST_TEXT),
            tags=_read_tags(values.get("tags", [])),
            notes=_read_text(values, "notes", 4000),
            at=_read_time(values.get("at")),
        )

    def opinion(self, claim: Claim, tags: Collection[str]) -> dict[str, Any]:
        """``value``, ``choice`` or ``text``, the choice as if nothing had been swapped; a wrong answer with the right one is
        ``value`` 0 and ``text``. Raises UsageError for what the queue does not ask, and for tags not among ``tags``."""
        for tag in self.tags:
            require_known("tag", tag, tags)
        rubric = claim.queue.rubric
        wanted = ASKED[rubric].asks
        if rubric == RatingQueue.Rubric.THUMBS and self.text and self.value is None:  # with one key, or a field
            return judge_text(claim.queue.agent, self.text, claim.trace.response)
        given = {"value": self.value is not None, "choice": bool(self.choice), "text": bool(self.text)}
        if not given[wanted]:
            raise UsageError(f"{wanted}: the queue {claim.queue.name} asks for it, and it is missing")
        if more := [name for name, is_there in given.items() if is_there and name != wanted]:
            raise UsageError(f"{more[0]}: the queue {claim.queue.name} asks for {wanted} alone")
        if wanted == "choice":
            require_known("choice", self.choice, _Choice.values)
            return {"choice": turn(self.choice) if claim.swapped else self.choice}
        return {"text": self.text} if wanted == "text" else {"value": _on_scale(rubric, cast("float", self.value))}


def turn(choice: str) -> str:
    """The choice with left and right changed round."""
    return _TURNED.get(choice, choice)


_FIELDS = ("id", "claim", "action", "value", "choice", "text", "tags", "notes", "at")


def _on_scale(rubric: str, value: float) -> float:
    asked = ASKED[rubric]
    nearest = min(asked.values, key=lambda allowed: abs(allowed - value))
    if not asked.between and not math.isclose(nearest, value, abs_tol=1e-6):
        allowed = ", ".join(f"{allowed:g}" for allowed in asked.values)
        raise UsageError(f"value: one of {allowed} is wanted, not {value:g}")
    return value if asked.between else nearest


def _read_id(given: object) -> UUID:
    try:
        return UUID(given) if isinstance(given, str) else UUID("")
    except ValueError:
        raise UsageError(f"id: a UUID is wanted, not {given!r:.80}") from None


def _read_number(given: object) -> int:
    if isinstance(given, bool) or not isinstance(given, int) or not 0 < given < 2**63:
        raise UsageError(f"claim: the number of a claim is wanted, not {given!r:.80}")
    return given


def _read_value(given: object) -> float | None:
    if given is None:
        return None
    if isinstance(given, bool) or not isinstance(given, (int, float)) or not 0 <= given <= 1:
        raise UsageError(f"value: a number from 0 to 1 is wanted, not {given!r:.80}")
    return float(given)


def _read_text(values: Mapping[str, Any], name: str, longest: int) -> str:
    text = values.get(name, "")
    if not isinstance(text, str) or len(text) > longest:
        raise UsageError(f"{name}: a text of at most {longest} characters is wanted")
    return text


def _read_tags(given: object) -> tuple[str, ...]:
    if not isinstance(given, list) or not all(isinstance(tag, str) for tag in given):
        raise UsageError("tags: a list of texts is wanted")
    return tuple(dict.fromkeys(given))


def _read_time(given: object) -> datetime | None:
    if given is None:
        return None
    try:
        at = parse_datetime(given) if isinstance(given, str) else None
    except ValueError:
        at = None
    if at is None:
        raise UsageError(f"at: a time such as 2026-12-31T12:00:00Z is wanted, not {given!r:.80}")
    return at if timezone.is_aware(at) else timezone.make_aware(at)
