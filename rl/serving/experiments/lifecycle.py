"""Experiments from their draft to their end: started, looked at every minute, and ended by a clear answer or a person."""

import logging
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from django.db import IntegrityError, transaction
from django.utils import timezone

from rl.base.errors import RatchetError, RunConflict, UsageError
from rl.base.records import Report, silent
from rl.models import Agent, Arm, Deployment, Experiment, ModelVersion
from rl.operations import audit
from rl.operations.webhooks.events import experiment_decided, experiment_waits
from rl.serving import judge_server
from rl.serving.experiments.looks import look
from rl.serving.promotion import promote

logger = logging.getLogger(__name__)
_State, _Verdict = Experiment.State, Experiment.Verdict


class Variant(NamedTuple):
    version: ModelVersion | None
    """None: the base model."""
    best_of: int | None = None
    """Answers of which the judge picks one; None: as the deployment says."""


Side = tuple[Variant, float]
"""A variant and its weight."""


def create(agent: Agent, name: str, arms: Sequence[Side], control: Variant, **settings: Any) -> Experiment:
    """A draft. ``settings``: the experiment's other fields, by name. Raises UsageError for arms that make no experiment,
    ValidationError for a field that is out of its range."""
    for field, value in settings.items():
        if isinstance(value, float) and not math.isfinite(value):
            raise UsageError(f"{field} must be a finite number, not {value}")
    experiment = Experiment(agent=agent, name=name, **settings)
    rows = [
        Arm(version=variant.version, best_of=variant.best_of, weight=weight, is_control=variant == control)
        for variant, weight in arms
    ]
    _check(agent, rows)
    experiment.full_clean()
    with transaction.atomic():
        experiment.save()
        for row in rows:
            row.experiment = experiment
            row.save()
    return experiment


def start(experiment: Experiment) -> None:
    """From now on its agent's users are divided between its arms. Raises UsageError for arms that make no experiment,
    RunConflict when it is not a draft or another one is running."""
    _check(experiment.agent, list(experiment.arms.select_related("version")))
    drafts = Experiment.objects.filter(pk=experiment.pk, state=_State.DRAFT)
    try:
        with transaction.atomic():
            started = drafts.update(state=_State.RUNNING, started_at=timezone.now(), reason="")
            if started:
                audit.record(audit.Action.EXPERIMENT_STARTED, experiment)
    except IntegrityError as error:
        other = find_running(experiment.agent)
        raise RunConflict(
            f"{other or 'another experiment'} of {experiment.agent.name} is running; stop it first"
        ) from error
    experiment.refresh_from_db()
    if not started:
        raise RunConflict(f"{experiment.name} was started before: it is {experiment.get_state_display()}")
    logger.info("experiment %s of %s started", experiment.name, experiment.agent.name)


def stop(experiment: Experiment, by: str) -> None:
    """By a person, without an answer; whatever is in use stays in use. Raises RunConflict when it is not running."""
    _end_by_person(experiment, _Verdict.STOPPED, f"{by} stopped it. {look(experiment).decision.reason}".strip())


def conclude(experiment: Experiment, arm: Arm, by: str, *, report: Report = silent) -> None:
    """A person chooses the arm that answers everybody from now on; a running experiment ends with that. Raises UsageError
    for an arm of another experiment, RunConflict for a draft, and what ``promote`` raises."""
    if arm.experiment_id != experiment.pk:
        raise UsageError(f"{arm.name} is not an arm of {experiment.name}")
    if experiment.state == _State.DRAFT:
        raise RunConflict(f"{experiment.name} has not started")
    if experiment.state == _State.RUNNING:
        decision = look(experiment).decision
        verdict = decision.verdict if decision.arm == arm.pk else _Verdict.STOPPED
        _end_by_person(experiment, verdict, f"{by} chose {arm.name}. {decision.reason}".strip())
    _put_in_use(experiment, arm, report)
    logger.info("%s put %s in use, experiment %s", by, arm.name, experiment.name)


def find_running(agent: Agent) -> Experiment | None:
    return agent.experiments.filter(state=_State.RUNNING).first()


def find_unserved(experiment: Experiment) -> list[str]:
    """Names of the arms that nothing serves: their users would get no answer."""
    served_versions = set(
        Deployment.objects.filter(agent=experiment.agent)
        .exclude(target=Deployment.Target.NONE)
        .values_list("version", flat=True)
    )
    return [arm.name for arm in experiment.arms.select_related("version") if arm.version_id not in served_versions]


def find_unjudged(experiment: Experiment) -> str:
    """Why arms that ask for several answers give the first one; empty where all is well."""
    if not any(count > 1 for count in _answers_of(experiment.agent, list(experiment.arms.all()))):
        return ""
    try:
        judge_server.require_judge(experiment.agent)
    except UsageError as error:
        return str(error)
    return judge_server.find_problem(experiment.agent)


def tick(*, report: Report = silent) -> list[Experiment]:
    """Looks at all running experiments and does what follows; returns those that it ended."""
    rows = Experiment.objects.filter(state=_State.RUNNING).select_related("agent")
    return [experiment for experiment in rows if follow(experiment, report=report)]


def follow(experiment: Experiment, *, report: Report = silent) -> bool:
    """Looks and acts: a guard stops its arm in any case; only an automatic experiment ends by itself, and not with a
    challenger that is worse for a group. Returns whether it ended."""
    current = look(experiment)
    decision = current.decision
    dropped = [*decision.harmful, *(decision.beaten if experiment.automatic else ())]
    for arm_look in current.arms:
        if arm_look.arm.pk in dropped and Arm.objects.filter(pk=arm_look.arm.pk, is_stopped=False).update(
            is_stopped=True
        ):
            logger.warning(
                "arm %s of experiment %s is stopped: %s", arm_look.arm.name, experiment.name, decision.reason
            )
    if decision.verdict and experiment.automatic and not decision.is_held:
        # the row is ended before anything is put in use, so that of two processes with one answer one acts
        if not _end(experiment, decision.verdict, decision.reason):
            return False
        arm = next(arm_look.arm for arm_look in current.arms if arm_look.arm.pk == decision.arm)
        try:
            _put_in_use(experiment, arm, report)
        except RatchetError:
            logger.exception("experiment %s: %s was not put in use", experiment.name, arm.name)
        return True
    reason = f"Waits for a person. {decision.reason}" if decision.verdict else decision.reason
    if reason != experiment.reason:
        with transaction.atomic():
            noted = Experiment.objects.filter(pk=experiment.pk, state=_State.RUNNING).update(reason=reason)
            if noted and decision.verdict:
                experiment_waits(experiment, decision.verdict, decision.reason)
    return False


def _put_in_use(experiment: Experiment, arm: Arm, report: Report) -> None:
    """Raises what ``promote`` raises; the experiment then says so."""
    try:
        if Deployment.champion(experiment.agent) != arm.version:
            promote(experiment.agent, arm.version, report=report)
        if arm.best_of:
            judge_server.set_best_of(experiment.agent, arm.version, arm.best_of)
    except RatchetError as error:
        experiment.reason = f"{experiment.reason} But {arm.name} could not be put in use: {error}"
        experiment.save(update_fields=["reason"])
        raise


def _end_by_person(experiment: Experiment, verdict: str, reason: str) -> None:
    if not _end(experiment, verdict, reason):
        experiment.refresh_from_db()
        raise RunConflict(f"{experiment.name} is not running: it is {experiment.get_state_display()}")


def _end(experiment: Experiment, verdict: str, reason: str) -> bool:
    """One conditional update; False when somebody else ended it."""
    rows = Experiment.objects.filter(pk=experiment.pk, state=_State.RUNNING)
    with transaction.atomic():
        ended = rows.update(state=_State.STOPPED, verdict=verdict, reason=reason, stopped_at=timezone.now())
        if ended:
            experiment.refresh_from_db()
            audit.record(audit.Action.EXPERIMENT_ENDED, experiment, verdict=verdict)
            experiment_decided(experiment)
    if ended:
        logger.info("experiment %s of %s ended: %s. %s", experiment.name, experiment.agent.name, verdict, reason)
    return bool(ended)


def _check(agent: Agent, arms: Sequence[Arm]) -> None:
    if len(arms) < 2:
        raise UsageError("an experiment needs at least two arms: a version and what it is compared with")
    counts = _answers_of(agent, arms)
    if len({(arm.version_id, count) for arm, count in zip(arms, counts, strict=True)}) < len(arms):
        raise UsageError("an experiment has each version once, or with different numbers of answers: v12 and v12@4")
    if sum(arm.is_control for arm in arms) != 1:
        raise UsageError("one of the arms must be the control, which the others are compared with")
    for arm in arms:
        if not (math.isfinite(arm.weight) and arm.weight > 0):
            raise UsageError(f"the weight of {arm.name} must be above 0, not {arm.weight:g}")
        if arm.best_of is not None:
            judge_server.check_best_of(arm.best_of)
        if arm.version and arm.version.agent_id != agent.pk:
            raise UsageError(f"{arm.version} is not a version of {agent.name}")
        if arm.version:
            arm.version.require_answers()


def _answers_of(agent: Agent, arms: Sequence[Arm]) -> list[int]:
    rows = Deployment.objects.filter(agent=agent).exclude(target=Deployment.Target.NONE).order_by("created_at")
    deployed: dict[int | None, int] = dict(rows.values_list("version", "best_of"))
    return [arm.best_of or deployed.get(arm.version_id, 1) for arm in arms]
