"""The loop of one agent as five steps: how far each is, and which of them holds the loop back."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from django.utils import timezone
from django.utils.translation import gettext

from rl.config.methods import scoring_methods
from rl.data_formatter.answer_kinds import AnswerKind
from rl.dataset_builder import training_plan
from rl.dataset_builder.plan.plan import TrainingPlan
from rl.models import Agent, Deployment, Evaluation, ModelVersion, TrainingRun
from rl.online_learner import samples_needed, waiting_feedback
from rl.operations import queue_state
from rl.runs.settling import foresee
from rl.web.kept_figures import KINDS, keep
from rl.web.version_figures import Sentence, newest_evaluation, right_share, sentence

QUEUE_SECONDS: Final = 60
"""A run that has waited longer should have begun, unless another one is at work."""


def is_better(evaluation: Evaluation | None) -> bool:
    return evaluation is not None and evaluation.verdict == Evaluation.Verdict.PROMOTE


def is_undecided(evaluation: Evaluation | None) -> bool:
    """Not measured counts too."""
    return evaluation is None or evaluation.verdict == Evaluation.Verdict.UNDECIDED


def find_bottleneck(*, has_traces: bool, trains: bool, is_better_and_unused: bool, is_due: bool, is_open: bool) -> str:
    """The step that holds the loop back: collect, rate, learn, judge or serve. ``is_due``: a training should begin.
    ``is_open``: nobody knows whether the newest version is better."""
    if not has_traces:
        return "collect"
    if trains or (is_due and not is_better_and_unused):
        return "learn"
    if is_better_and_unused:
        return "serve"
    return "judge" if is_open else "rate"


@dataclass(frozen=True, slots=True)
class Loop:
    agent: Agent
    traces: int
    this_week: int
    waiting: int
    """Ratings that no training set has seen."""
    needed: int
    """That start a run."""
    right: str | None
    """How often the version in use is right; see ``right_share``."""
    kind: AnswerKind
    """What its answers are."""
    plan: TrainingPlan
    active: TrainingRun | None
    newest: ModelVersion | None
    """That answers."""
    evaluation: Evaluation | None
    """What the gate said of the newest version."""
    champion: ModelVersion | None
    served: list[Deployment]

    @property
    def verdict(self) -> Sentence | None:
        return sentence(self.evaluation) if self.evaluation else None

    @property
    def mixed(self) -> str:
        """What a run of every kind of rating would learn from, or what is missing."""
        method = {row.method: row for row in self.plan.methods}["mpo"]
        return method.made_of if method.ready else method.missing

    @property
    def learns_by(self) -> list[str]:
        """What kind of answers it would learn, of which there are few, and by which numbers."""
        return [*self.plan.accepted.sentences, *filter(None, [foresee(self.agent, self.plan)])]

    @property
    def is_better_and_unused(self) -> bool:
        return is_better(self.evaluation) and self.newest != self.champion

    @property
    def previous(self) -> str:
        """What one click goes back to; empty: nothing."""
        return next((row.version_name for row in self.served if row.alias == Deployment.Alias.PREVIOUS), "")

    @property
    def bottleneck(self) -> str:
        is_due = bool(self.plan.advice.method) and (not self.newest or self.waiting >= self.needed)
        return find_bottleneck(
            has_traces=bool(self.traces),
            trains=self.active is not None,
            is_better_and_unused=self.is_better_and_unused,
            is_due=is_due,
            is_open=self.newest is not None and is_undecided(self.evaluation),
        )


def look_at(agent: Agent) -> Loop:
    """A constant number of queries."""
    week = timezone.now() - timedelta(days=7)
    plan = keep(("plan", agent.pk), lambda: training_plan(agent), lambda plan: plan.figures.traces)
    newest = agent.versions.select_related("agent").exclude(run__method__in=scoring_methods()).first()
    champion = agent.deployments.filter(alias=Deployment.Alias.CHAMPION).select_related("version__parent").first()
    in_use, kind = champion.version if champion else None, KINDS.now(agent)
    return Loop(
        agent=agent,
        traces=plan.figures.traces,
        this_week=agent.traces.order_by().filter(created_at__gte=week).count(),
        waiting=waiting_feedback(agent).count(),
        needed=samples_needed(agent, kind),
        right=right_share(agent, in_use, kind),
        kind=kind,
        plan=plan,
        active=agent.runs.filter(state__in=TrainingRun.ACTIVE).first(),
        newest=newest,
        evaluation=newest_evaluation(newest) if newest else None,
        champion=in_use,
        served=list(agent.deployments.select_related("version").order_by("-alias", "-created_at")[:20]),
    )


def why_queued(run: TrainingRun | None) -> str:
    """Why a run waits that should have begun; empty where all is well."""
    if run is None or run.state != TrainingRun.State.QUEUED:
        return ""
    late = run.created_at < timezone.now() - timedelta(seconds=QUEUE_SECONDS)
    text = gettext("Run {run} is queued, but qcluster is not running: {command}.")
    silent = late and queue_state.is_silent(queue_state.last_work())
    return text.format(run=run.pk, command=queue_state.START) if silent else ""
