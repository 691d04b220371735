"""Is it time to retrain? Asked of the database every minute; nothing is remembered in between.

An agent is due when ``min_samples_to_retrain`` new current ratings wait, or when ``retrain_interval_hours`` have passed
since its last run and what waits gives at least one row to train on. After a run of the learner that failed or was
cancelled only ratings that have come since count: the same data would fail again. Ratings that arrive while a run is at
work are not in its training set and wait for the next one.

Where answers are right or wrong, few ratings are worth a run, as each teaches much, a run takes minutes, and nothing is held
out: see ``samples_needed``. Such an early run begins when the machine has nothing else to do.

The method is MPO, which learns from every kind of rating.

Imports: base, collect, data_formatter, dataset_builder, models, runs, serving; Django."""

import logging
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from django.conf import settings
from django.db.models import Case, Q, QuerySet, When
from django.utils import timezone

from rl import dataset_builder
from rl.base.errors import RatchetError, RunConflict, UsageError
from rl.collect.feedback.judged_answers import kind_of_answers
from rl.collect.feedback.write import Rated, rate
from rl.collect.importers import IMPORTERS
from rl.data_formatter.answer_kinds import AnswerKind
from rl.models import Agent, Feedback, Trace, TrainingRun
from rl.runs import choosing, supervisor
from rl.runs import run as runs
from rl.serving import machine

logger = logging.getLogger(__name__)
METHOD = "mpo"
FIRST: Final = 12
"""Ratings that start the first run of an agent whose answers are right or wrong."""
FEWEST: Final = 4
"""That start a later one, at least."""
USUAL: Final = Agent._meta.get_field("min_samples_to_retrain").get_default()
_EARLY: Final = "corrections that start a run of an agent with right answers"
_IMPORTED = Q(source__in=IMPORTERS, api_key=None, user=None)
"""What was read from files, and by nobody's key: a client's ratings may have the same source."""


@dataclass(frozen=True, slots=True)
class LearnerStatus:
    """``buffer_size`` ratings wait of the ``min_samples`` that start a run."""

    agent: str
    enabled: bool
    buffer_size: int
    min_samples: int
    is_training: bool
    should_retrain: bool
    reason: str
    last_run: int | None
    last_run_state: str | None
    next_by_interval: datetime | None
    """When the interval would start a run, if ratings wait."""


class OnlineLearner:
    def __init__(self, agent: Agent) -> None:
        self.agent = agent

    def add_feedback(self, trace: Trace, *, rater: str, scale: str, value: float, **details: Any) -> Rated:
        """Raises UsageError when the trace belongs to another agent or the value is not on the scale."""
        if trace.agent_id != self.agent.pk:
            raise UsageError(f"trace {trace.pk} does not belong to {self.agent.name}")
        return rate(trace, rater=rater, scale=scale, value=value, source="online_learner", **details)

    def get_status(self, *, survey: bool = True) -> LearnerStatus:
        """Without ``survey`` a run counts as due once the interval has passed, whether or not what waits gives a pair:
        finding that out reads all ratings of the agent."""
        idle = Case(When(state__in=TrainingRun.ACTIVE, then=0), default=1)  # an older run may have been resumed
        last = self.agent.runs.order_by(idle, "-created_at").first()
        training = last is not None and last.is_active
        waiting, needed = self._waiting(last).count(), samples_needed(self.agent)
        reason = "" if training else self._due(waiting, needed, last, survey)
        return LearnerStatus(
            agent=self.agent.name,
            enabled=is_enabled(self.agent),
            buffer_size=waiting,
            min_samples=needed,
            is_training=training,
            should_retrain=bool(reason),
            reason=reason or ("a run is in progress" if training else self._why_not(waiting, needed, last, survey)),
            last_run=last.pk if last else None,
            last_run_state=last.state if last else None,
            next_by_interval=self._interval_ends(last) if waiting and not training else None,
        )

    def should_retrain(self) -> bool:
        return self.get_status().should_retrain

    def trigger_retrain(self) -> TrainingRun:
        """Queues a run now, due or not. Raises RunConflict when one is queued or running, and UsageError for settings of the
        agent that do not fit together, or that only the operator may have."""
        chosen = choosing.choose(self.agent, METHOD)
        options = runs.RunOptions(
            data=dataset_builder.DataOptions(pair_type=self.agent.pair_type, min_samples=1),
            export=self.agent.auto_export,
            quantization=self.agent.export_quantization,
            deploy=self.agent.deploy_target if self.agent.auto_deploy else "",
        )
        run = runs.create(
            self.agent,
            method_name=METHOD,
            config=chosen.config,
            options=chosen.apply_to(options),
            trigger=TrainingRun.Trigger.ONLINE,
        )
        supervisor.enqueue(run)
        return run

    def _due(self, waiting: int, needed: int, last: TrainingRun | None, survey: bool) -> str:
        """The reason to start a run; empty when there is none."""
        new = waiting
        if last and last.trigger == TrainingRun.Trigger.ONLINE and last.state != TrainingRun.State.SUCCEEDED:
            new = self._waiting(last).filter(created_at__gt=last.created_at).count()
        if new >= self.agent.min_samples_to_retrain:
            return f"{new} new ratings wait"
        if new >= needed and not _what_is_at_work():
            return f"{new} of {needed} {_EARLY}"
        if not new or timezone.now() < self._interval_ends(last):
            return ""
        passed = f"{self.agent.retrain_interval_hours} hours have passed and {waiting} new ratings wait"
        if not survey:
            return f"{passed}; a run starts if they give a row to learn from"
        return passed if self.is_trainable() else ""

    def _waiting(self, last: TrainingRun | None) -> QuerySet[Feedback]:
        """What may start a training: of an agent without a run, what was imported does when somebody has seen the plan."""
        waiting = waiting_feedback(self.agent)
        return waiting if self._plan_is_known(last) else waiting.exclude(_IMPORTED)

    def _plan_is_known(self, last: TrainingRun | None) -> bool:
        return last is not None or self.agent.plan_seen_at is not None

    def _why_not(self, waiting: int, needed: int, last: TrainingRun | None, survey: bool) -> str:
        if waiting and last is not None and last.state == TrainingRun.State.FAILED:
            again = "tried again when new ratings have come, or by 'Retrain now'"
            return f"run {last.pk} failed: {last.error or 'see its log'}; {again}"
        if survey and waiting and timezone.now() >= self._interval_ends(last):
            return f"what waits gives no row; 'manage.py training_plan --agent {self.agent.name}' says what can use it"
        if not self._plan_is_known(last) and (imported := waiting_feedback(self.agent).filter(_IMPORTED).count()):
            see = f"'manage.py training_plan --agent {self.agent.name}' shows it, 'Retrain now' starts a run"
            return f"{imported} imported ratings wait until somebody has seen the plan: {see}"
        if needed == self.agent.min_samples_to_retrain:
            return f"{waiting} of {needed} ratings that start a run wait"
        at_work = _what_is_at_work() if waiting >= needed else ""
        return f"{waiting} of {needed} {_EARLY} wait{f'; {at_work}' if at_work else ''}"

    def _interval_ends(self, last: TrainingRun | None) -> datetime:
        since = self.agent.created_at if last is None else (last.finished_at or last.created_at)
        return since + timedelta(hours=self.agent.retrain_interval_hours)

    def is_trainable(self) -> bool:
        """Whether a run now would have a row to learn from."""
        options = dataset_builder.DataOptions(pair_type=self.agent.pair_type, min_samples=1)
        survey = dataset_builder.survey(self.agent, options, method=METHOD)
        return survey.train_rows > 0 and not survey.shortage


def get_online_learner(agent_name: str) -> OnlineLearner:
    """Raises UsageError for an unknown agent."""
    return OnlineLearner(Agent.by_name(agent_name))


def init_online_learner(agent_name: str, *, min_samples: int, retrain_interval_hours: int) -> OnlineLearner:
    """Switches an agent's online learning on with these settings."""
    learner = get_online_learner(agent_name)
    agent = learner.agent
    agent.online_learning = True
    agent.min_samples_to_retrain, agent.retrain_interval_hours = min_samples, retrain_interval_hours
    agent.full_clean()
    agent.save()
    return learner


def is_enabled(agent: Agent) -> bool:
    return not how_to_enable(agent)


def how_to_enable(agent: Agent) -> str:
    """What a person has to do before the agent retrains by itself; empty when it does."""
    if not settings.ENABLE_ONLINE_LEARNING:
        return "set ENABLE_ONLINE_LEARNING=1"
    return "" if agent.online_learning else "switch it on for this agent in the admin"


def samples_needed(agent: Agent, kind: AnswerKind | None = None) -> int:
    """New ratings that start a run: as many as a person set. Where nobody did and answers are right or wrong, FIRST of them
    start the first run, and a quarter of what the last one learned from the next. ``kind``: of its answers, where that is
    known. At most two queries."""
    if agent.min_samples_to_retrain != USUAL or not (kind or kind_of_answers(agent)).has_right_answers:
        return agent.min_samples_to_retrain
    learned = agent.runs.filter(state=TrainingRun.State.SUCCEEDED).exclude(training_set=None).order_by("-created_at")
    count = learned.values_list("training_set__feedback_count", flat=True).first()
    return min(USUAL, FIRST if count is None else max(FEWEST, count // 4))


def _what_is_at_work() -> str:
    """What an early run waits for; empty when the machine is idle."""
    if TrainingRun.objects.filter(state__in=TrainingRun.ACTIVE).exists():
        return "it begins when no other run is at work"
    return "it begins when the gateway is quiet" if machine.busy() else ""


def waiting_feedback(agent: Agent) -> QuerySet[Feedback]:
    """Current feedback that no training set has seen."""
    waiting = Feedback.objects.filter(agent=agent, is_current=True, training_set__isnull=True)
    return waiting.exclude(kind=Feedback.Kind.RETRACTION)


def tick() -> list[TrainingRun]:
    """Queues a run for every agent that is due, never a second one; safe to call from anywhere, any number of times."""
    if not settings.ENABLE_ONLINE_LEARNING:
        return []
    learners = (OnlineLearner(agent) for agent in Agent.objects.filter(online_learning=True))
    return [run for learner in learners if (run := _start_if_due(learner))]


def _start_if_due(learner: OnlineLearner) -> TrainingRun | None:
    try:
        status = learner.get_status()
        if not status.should_retrain:
            return None
        run = learner.trigger_retrain()
    except RunConflict:  # another cluster's tick, or a person, was quicker
        return None
    except RatchetError as error:  # one agent's settings must not hold the others back
        logger.error("%s: no run could be queued: %s", learner.agent.name, error)
        return None
    logger.info("%s: queued run %s because %s", learner.agent.name, run.pk, status.reason)
    return run


def statuses(agents: Iterable[Agent]) -> list[dict[str, Any]]:
    return [asdict(OnlineLearner(agent).get_status()) for agent in agents]
