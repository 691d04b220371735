"""Probation: for a while after a promotion, the version before returns by itself when the new one is rated worse.

What is known of it stands in the audit log and in the aliases: the newest move of the agent's champion is the promotion of
the version that is in use, its first one, and the version before is what the alias ``previous`` names. Whatever a person or
an experiment does ends it.

The ratings of the new version's answers are compared with those of the version before until then, or the shares of right
answers where they are right or wrong, by intervals that hold at all looks together (rl/serving/experiments/sequential.py).
Other users at another time gave them, which no interval knows of; hence the margin."""

import logging
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from django.db.models import Q, QuerySet
from django.utils import timezone

from rl.base.errors import RatchetError, RunConflict, UsageError
from rl.base.measurements import Interval
from rl.base.records import Report, silent
from rl.collect.feedback.judged_answers import USER, Share, judged_answers, kind_of_answers
from rl.data_formatter.answer_kinds import AnswerKind
from rl.models import Agent, AuditEvent, Deployment, Experiment, Feedback, ModelVersion, version_name
from rl.models.traces import answered_by
from rl.operations import audit
from rl.serving.experiments import wording
from rl.serving.experiments.lifecycle import find_running
from rl.serving.experiments.sequential import VALID_FROM, MetricTally, interval
from rl.serving.experiments.verdicts import clip_interval
from rl.serving.promotion import roll_back
from rl.serving.upstreams import upstream_of
from rl.serving.withdrawal import rows_of

logger = logging.getLogger(__name__)

DAYS: Final = 7
RATED_USERS: Final = 200
"""Users who rated the new version: with so many its probation ends early."""
JUDGED: Final = 2000
"""Words of these users that are looked at, where answers are right or wrong."""
DAYS_BEFORE: Final = 28
RATINGS_BEFORE: Final = 500
"""The newest ratings of the version before that it is compared with, of at most the days before the promotion."""
MARGIN: Final = 0.05
"""How much worse is bearable, on the scale 0 to 1."""
ALPHA: Final = 0.05
SPREAD: Final = 0.2
"""The loss at which the interval is narrowest: large ones are to be seen early."""
DAYS_SHOWN: Final = 14
"""Days after the last move of the champion during which people are told how it went."""
_BEFORE, _NEW = 0, 1
_Values = Iterable[tuple[str, float]]
"""Who is one user, and what he said, 0 to 1."""
_MOVES = (audit.Action.PROMOTED, audit.Action.ROLLED_BACK)


@dataclass(frozen=True, slots=True)
class Probation:
    agent: Agent
    version: ModelVersion
    previous: ModelVersion | None
    """None: the base model."""
    began_at: datetime

    @property
    def ends_at(self) -> datetime:
        return self.began_at + timedelta(days=DAYS)


@dataclass(frozen=True, slots=True)
class ProbationComparison:
    rated: int
    """Users who rated the new version, at most RATED_USERS."""
    rated_before: int
    """Users behind the ratings of the version before."""
    difference: Interval | None
    """Mean rating of the new version, or its share of right answers, minus that of the one before; None while fewer than
    VALID_FROM users rated either."""
    right: tuple[Share, Share] | None = None
    """How many answers of the new version are right, and of the one before; None where none can be."""

    @property
    def is_worse(self) -> bool:
        return self.difference is not None and self.difference.high < -MARGIN

    def text(self) -> str:
        parts = [f"rated users: {self.rated}, before {self.rated_before}"]
        if self.difference is not None:
            metric = "thumbs_up" if self.right else "rating"
            figures = wording.difference_text(metric, self.difference.value)
            ends = wording.difference_interval(metric, self.difference)
            parts.insert(0, f"{figures} ({(1 - ALPHA) * 100:g} % interval {ends})")
        if self.right:
            new, before = self.right
            parts.insert(0, f"right in {new} corrected or rated answers (the version before: {before})")
        return ", ".join(parts)

    def worse_than(self, previous: str) -> str:
        what = "it is right less often than" if self.right else "its ratings are worse than those of"
        return f"{what} {previous}: {self.text()}"


def tick(*, report: Report = silent) -> list[Probation]:
    """Takes back the versions that are worse; safe to call from anywhere, any number of times."""
    going_on = _find_probations(_newest_moves(DAYS).values())
    return [probation for probation in going_on if not _find_decider(probation) and _follow(probation, report)]


def compare(probation: Probation) -> ProbationComparison:
    tally, kind = MetricTally(), kind_of_answers(probation.agent)
    before, after = _read_judged(probation, kind) if kind.has_right_answers else _read_ratings(probation)
    shares = _add(tally, _NEW, after, RATED_USERS), _add(tally, _BEFORE, before, RATINGS_BEFORE)
    right = shares if kind.has_right_answers else None
    estimate, fewest = tally.difference(_BEFORE, _NEW), min(tally.n(_BEFORE), tally.n(_NEW))
    difference = None
    if estimate is not None and fewest >= VALID_FROM:
        difference = clip_interval("rating", interval(estimate, SPREAD, ALPHA), -1.0, 1.0)
    return ProbationComparison(tally.n(_NEW), tally.n(_BEFORE), difference, right)


def _add(tally: MetricTally, arm: int, values: _Values, most_users: int) -> Share:
    """How many of the values are right, where that is what they say. It ends at so many users."""
    added: list[float] = []
    for user, value in values:
        if tally.n(arm) == most_users:
            break
        tally.add(arm, user, value)
        added.append(value)
    return Share(int(sum(added)), len(added))


def describe_all() -> dict[str, str]:
    """A sentence for people by the name of the agent, for those whose champion moved in the last days. One query, two more
    with such agents, and up to six for each of them."""
    moves = _newest_moves(DAYS_SHOWN)
    sentences = {probation.agent.name: _describe(probation) for probation in _find_probations(moves.values())}
    for name, event in moves.items():
        if event.action == audit.Action.ROLLED_BACK and (reason := event.details.get("reason")):
            sentences[name] = f"{event.details['before']} was taken back on {_day(event.at)}: {reason}"
    return sentences


def _newest_moves(days: int) -> dict[str, AuditEvent]:
    """By the agent's name."""
    since = timezone.now() - timedelta(days=days)
    events = AuditEvent.objects.filter(action__in=_MOVES, at__gte=since).order_by("at", "pk")
    return {event.agent: event for event in events}


def _find_probations(moves: Iterable[AuditEvent]) -> Iterator[Probation]:
    events = {event.agent: event for event in moves if event.action == audit.Action.PROMOTED}
    if not events:
        return
    rows = Deployment.objects.exclude(alias="").filter(agent__name__in=events).select_related("agent", "version")
    aliased = {(row.agent_id, row.alias): row for row in rows}
    for row in aliased.values():
        event = events[row.agent.name]
        if row.alias != Deployment.Alias.CHAMPION or row.version is None or event.at < row.agent.created_at:
            continue
        before = aliased.get((row.agent_id, Deployment.Alias.PREVIOUS))
        previous = before.version if before else None
        is_it = event.target == audit.describe(row.version) and event.details.get("before") == version_name(previous)
        if is_it and _is_first(event, row.agent):
            yield Probation(row.agent, row.version, previous, event.at)


def _is_first(event: AuditEvent, agent: Agent) -> bool:
    """Whoever puts a version in use again knows it: it is not taken from him a second time."""
    same = AuditEvent.objects.filter(action=event.action, agent=agent.name, target=event.target)
    return not same.filter(at__gte=agent.created_at, pk__lt=event.pk).exists()


def _find_decider(probation: Probation) -> str:
    """The name of the experiment that decides about the agent's versions, or has decided about this one since."""
    if running := find_running(probation.agent):
        return running.name
    ended = probation.agent.experiments.filter(stopped_at__gt=probation.began_at, arms__version=probation.version)
    decided = ended.exclude(verdict__in=["", Experiment.Verdict.STOPPED]).first()
    return decided.name if decided else ""


def _read_ratings(probation: Probation) -> tuple[_Values, _Values]:
    """Those of the version before come first; each are in the order in which they count."""
    agent = probation.agent
    before = _ratings(agent, probation.previous).filter(_said_before(probation)).order_by("-created_at", "-id")
    after = _ratings(agent, probation.version).filter(_said_since(probation)).order_by("created_at", "id")
    return before[:RATINGS_BEFORE], after.iterator()


def _read_judged(probation: Probation, kind: AnswerKind) -> tuple[_Values, _Values]:
    """The same with 1 for a right answer and 0 for a wrong one."""
    agent, before, since = probation.agent, _said_before(probation), _said_since(probation)
    old = judged_answers(agent, probation.previous, kind, before, most=RATINGS_BEFORE)
    return old, judged_answers(agent, probation.version, kind, since, newest=False, most=JUDGED)


def _said_before(probation: Probation) -> Q:
    began = probation.began_at
    return Q(created_at__lt=began, created_at__gte=began - timedelta(days=DAYS_BEFORE))


def _said_since(probation: Probation) -> Q:
    began = probation.began_at
    return Q(trace__occurred_at__gte=began, created_at__gte=began, created_at__lt=probation.ends_at)


def _ratings(agent: Agent, version: ModelVersion | None) -> QuerySet[Feedback, tuple[Any, ...]]:
    """Current ratings of the version's answers: who is one user, and the value."""
    given = Feedback.objects.filter(agent=agent, kind=Feedback.Kind.RATING, is_current=True)
    return given.filter(answered_by(version, "trace__")).annotate(user_key=USER).values_list("user_key", "value")


def _follow(probation: Probation, report: Report) -> bool:
    """Whether the version was taken back."""
    agent, previous = probation.agent, version_name(probation.previous)
    comparison = compare(probation)
    if not comparison.is_worse or not _can_answer(agent, probation.previous):
        return False
    reason = comparison.worse_than(previous)
    try:
        roll_back(agent, instead_of=probation.version, reason=reason, report=report)
    except RunConflict as error:  # another queue, or a person, was quicker
        logger.info("%s: %s", agent.name, error)
        return False
    except RatchetError as error:
        logger.error("%s: %s could not be taken back: %s", agent.name, probation.version.name, error)
        return False
    logger.warning("%s: %s was taken back, %s is in use: %s", agent.name, probation.version.name, previous, reason)
    return True


def _can_answer(agent: Agent, version: ModelVersion | None) -> bool:
    for row in rows_of(agent, version).select_related("agent", "version"):
        with suppress(UsageError):
            upstream_of(row)
            if not row.settings.get("error"):
                return True
    return False


def _describe(probation: Probation) -> str:
    if decider := _find_decider(probation):
        return f"Experiment {decider} decides about it."
    comparison, previous = compare(probation), version_name(probation.previous)
    over = timezone.now() >= probation.ends_at
    if comparison.is_worse:
        alive = _can_answer(probation.agent, probation.previous)
        then = "Nothing serves that one" if not alive else "Roll back" if over else f"{previous} returns by itself"
        harm = comparison.worse_than(previous)
        return f"{harm[0].upper()}{harm[1:]}. {then}."
    if comparison.rated < RATED_USERS and not over:
        ends = f"until {_day(probation.ends_at)} or {RATED_USERS} rated users"
        return f"On probation against {previous} {ends}: {comparison.text()}."
    if comparison.difference is None:
        return f"Its probation ended without an answer, which takes {VALID_FROM} users a side: {comparison.text()}."
    return f"Its probation ended without harm: {comparison.text()}."


def _day(moment: datetime) -> str:
    return f"{timezone.localtime(moment):%Y-%m-%d %H:%M}"
