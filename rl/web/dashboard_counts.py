"""The figures of the dashboard, in some queries, however many rows there are."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from typing import Any

from django.db import connection
from django.db.models import Exists, F, IntegerField, OuterRef, Q, QuerySet, Subquery
from django.utils import timezone

from rl.config.methods import scoring_methods
from rl.data_formatter.answer_kinds import FEWEST, FREE
from rl.models import Agent, Deployment, Evaluation, Feedback, ModelVersion, Trace, TrainingRun
from rl.online_learner import how_to_enable, samples_needed, waiting_feedback
from rl.serving import probation
from rl.web.agent_steps import find_bottleneck, is_better, is_undecided
from rl.web.kept_figures import KINDS
from rl.web.version_figures import Sentence, right_share, sentence

DAYS = 30
AGENTS = 50
IDLE_DAYS = 7
NEEDS = ("failed", "serve", "learn", "judge", "rate", "training")
"""What an agent needs somebody for, the most urgent first; the last needs patience only."""
COUNTED = 1000
"""Ratings of an agent that are counted: to count millions takes longer than a page may."""

_WHOLE = ("measure", "evidence", "decided_by", "difference", "margin", "duels", "said", "models")
_PARTS = {**{name: name for name in _WHOLE}, "rails": "guards__rails"}
"""What a verdict is said with: name here, to its path in an evaluation's report."""

# Written exactly like the conditions of the partial indexes, or the planner does not use them.
LEARNABLE = Q(is_current=True) & ~Q(kind=Feedback.Kind.RETRACTION)
WAITING = Q(is_current=True, training_set__isnull=True) & ~Q(kind=Feedback.Kind.RETRACTION)


@dataclass(frozen=True, slots=True)
class AgentFigures:
    """What one agent could be trained on now, and what it uses."""

    agent: Agent
    current: int
    """Ratings, picks, corrections and outcomes that stand, at most COUNTED."""
    waiting: int
    """Those of the current feedback that no training set has seen; at most COUNTED, or ``needed`` where that is more."""
    champion: ModelVersion | None
    evaluation: Evaluation | None
    """The newest of the champion."""
    needed: int
    """New events that start a run."""
    right: str | None = None
    """How often the champion is right; see ``right_share``."""
    probation: str = ""
    """How the version does that was promoted, or taken back, in the last days."""
    newest: ModelVersion | None = None
    """That answers."""
    newest_evaluation: Evaluation | None = None
    newest_answer: datetime | None = None
    run: int | None = None
    """The one that is queued or running."""
    failures: list[TrainingRun] = field(default_factory=list)
    """See ``open_failures``."""

    @property
    def need(self) -> str:
        """One of NEEDS; empty: it needs nobody, as nothing came for days or nothing ever did."""
        if self.failures:
            return "failed"
        if self.run:
            return "training"
        is_idle = self.newest_answer is None or self.newest_answer < timezone.now() - timedelta(days=IDLE_DAYS)
        return "" if is_idle and self.bottleneck in ("collect", "rate") else self.bottleneck

    @property
    def verdict(self) -> Sentence | None:
        """What the gate said of the newest version."""
        return sentence(self.newest_evaluation) if self.newest_evaluation else None

    @property
    def bottleneck(self) -> str:
        """The step that holds the loop back, without a look at what the ratings give: that reads them all."""
        return find_bottleneck(
            has_traces=self.newest_answer is not None,
            trains=self.run is not None,
            is_better_and_unused=is_better(self.newest_evaluation) and self.newest != self.champion,
            is_due=not self.missing,
            is_open=self.newest is not None and is_undecided(self.newest_evaluation),
        )

    @property
    def counts(self) -> list[str]:
        """``current`` and ``waiting`` for people."""
        return [f"{count:,}{'+' * (count >= COUNTED)}" for count in (self.current, self.waiting)]

    @property
    def missing(self) -> int:
        return max(0, self.needed - self.waiting)

    @property
    def how_to_enable(self) -> str:
        """What is to be done before it retrains by itself; empty when it does."""
        return how_to_enable(self.agent)


class _CountSome(Subquery):
    """How many rows a slice has, of each row of the query around it."""

    template = "(SELECT count(*) FROM (%(subquery)s) AS counted)"
    output_field = IntegerField()


def last_days(number: int, today: date | None = None) -> list[datetime]:
    """When each began, in UTC, the oldest first."""
    last = datetime.combine(today or timezone.now().astimezone(UTC).date(), time(), UTC)
    return [last - timedelta(days=back) for back in reversed(range(number))]


def count_by_day(rows: QuerySet[Any], days: Sequence[datetime]) -> list[int]:
    """How many came on each, days without any included. One query, of the index of times, that is composed for one day: that
    takes longer than to count."""
    of_day = rows.order_by().filter(created_at__gte=days[0], created_at__lt=days[0]).values("pk")
    statement, (*values, _, _) = of_day.query.sql_with_params()
    counts = ", ".join([f"(SELECT count(*) FROM ({statement}) AS of_day)"] * len(days))  # noqa: S608 (Django composed it)
    ends = [map(connection.ops.adapt_datetimefield_value, (day, day + timedelta(days=1))) for day in days]
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {counts}", [value for of_one in ends for value in (*values, *of_one)])
        return list(cursor.fetchone())


def feedback_by_day(rows: QuerySet[Feedback], days: Sequence[datetime]) -> list[int]:
    """Retractions are not counted."""
    return count_by_day(rows.filter(retracts__isnull=True), days)


def open_failures() -> QuerySet[TrainingRun]:
    """The newest failed run of each agent and method, until a later one succeeds."""
    ended = TrainingRun.objects.filter(state__in=(TrainingRun.State.SUCCEEDED, TrainingRun.State.FAILED))
    later = ended.filter(agent=OuterRef("agent"), method=OuterRef("method"), pk__gt=OuterRef("pk"))
    return TrainingRun.objects.filter(~Exists(later), state=TrainingRun.State.FAILED).order_by("-pk")


def _keys_of_page(find: str, page: int) -> list[int]:
    """The agents whose name has ``find`` in it: those with a failed run come first, then whoever answered last. The keys are
    one more than a page has where another page follows."""
    newest = Trace.objects.filter(agent=OuterRef("pk")).order_by("-created_at", "id").values("created_at")[:1]
    failed = Exists(open_failures().filter(agent=OuterRef("pk")))
    agents = Agent.objects.filter(name__icontains=find).alias(failed=failed, newest=Subquery(newest))
    order = ("-failed", F("newest").desc(nulls_last=True), "name")
    return list(agents.order_by(*order).values_list("pk", flat=True)[(page - 1) * AGENTS : page * AGENTS + 1])


def counted_agents(keys: Sequence[int]) -> list[Any]:
    """These, with ``current`` and ``waiting`` events, ``newest_answer``, ``active_run`` and ``newest_version``."""
    agents = Agent.objects.filter(pk__in=keys).defer("system_prompt", "description")
    runs = TrainingRun.objects.filter(agent=OuterRef("pk"), state__in=TrainingRun.ACTIVE).order_by("-pk")
    newest = (
        ModelVersion.objects.filter(agent=OuterRef("pk")).exclude(run__method__in=scoring_methods()).order_by("-pk")
    )
    # Each is asked for in the order of an index: for an agent that has nothing the planner would else read the whole table,
    # as it expects to come upon a row of any agent soon.
    traces = Trace.objects.filter(agent=OuterRef("pk")).order_by("-created_at", "id")
    counts = {
        name: Feedback.objects.filter(condition, agent=OuterRef("pk")).order_by("training_set_id")
        for name, condition in (("current", LEARNABLE), ("waiting", WAITING))
    }
    rows = agents.annotate(
        **{name: _CountSome(events.values("agent")[:COUNTED]) for name, events in counts.items()},
        newest_answer=Subquery(traces.values("created_at")[:1]),
        active_run=Subquery(runs.values("pk")[:1]),
        newest_version=Subquery(newest.values("pk")[:1]),
    )
    return list(rows)


def newest_evaluations(versions: Iterable[ModelVersion]) -> dict[int, Evaluation]:
    """Version id to the newest evaluation of its weights. Of the report, which is long, it has the parts of the verdict;
    what was measured is ``measure`` too."""
    rows = Evaluation.objects.filter(version__in={version.pk for version in versions}, artifact=None).defer("report")
    rows = rows.annotate(**{name: F(f"report__{path}") for name, path in _PARTS.items()})
    newest = {row.version_id: row for row in rows.select_related("version", "against").order_by("created_at")}
    for row in newest.values():
        values = {name: getattr(row, name) for name in _PARTS if getattr(row, name) is not None}
        row.report = {**values, "guards": {"rails": values.get("rails", [])}}
    return newest


def agents_by_need(find: str = "", page: int = 1, *, with_failures: bool = False) -> tuple[list[AgentFigures], bool]:
    """A page of them, and whether another one follows; the most urgent first. Nine queries, one for each agent with new
    ratings that are enough to tell what its answers are, three more where they are right or wrong, and some for each agent
    whose version in use changed in the last days."""
    keys = _keys_of_page(find, page)
    deployed = Deployment.objects.filter(alias=Deployment.Alias.CHAMPION).select_related("version__parent")
    in_use = {row.agent_id: row.version for row in deployed if row.version is not None}
    sentences, agents = probation.describe_all(), counted_agents(keys[:AGENTS])
    newest = ModelVersion.objects.in_bulk([agent.newest_version for agent in agents if agent.newest_version])
    evaluations = newest_evaluations([*in_use.values(), *newest.values()])
    failures = list(open_failures().filter(agent__in=agents)) if with_failures else []
    figures = []
    KINDS.look()
    for agent in agents:
        champion = in_use.get(agent.pk)
        kind = KINDS.of(agent) if agent.answer_kind or agent.current >= FEWEST else FREE
        needed = samples_needed(agent, kind)
        of_agent = AgentFigures(
            agent=agent,
            current=agent.current,
            waiting=agent.waiting if needed <= COUNTED else waiting_feedback(agent)[:needed].count(),
            champion=champion,
            evaluation=evaluations.get(champion.pk) if champion else None,
            needed=needed,
            right=right_share(agent, champion, kind),
            probation=sentences.get(agent.name, ""),
            newest=newest.get(agent.newest_version),
            newest_evaluation=evaluations.get(agent.newest_version),
            newest_answer=agent.newest_answer,
            run=agent.active_run,
            failures=[run for run in failures if run.agent_id == agent.pk],
        )
        figures.append(of_agent)
    order = {need: rank for rank, need in enumerate((*NEEDS, ""))}
    return sorted(figures, key=lambda row: (order[row.need], keys.index(row.agent.pk))), len(keys) > AGENTS
