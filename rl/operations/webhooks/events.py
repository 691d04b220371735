"""What webhooks are told, and when: call these in the transaction of what they describe."""

import logging
from typing import Any

from django.utils import timezone

from rl.base.errors import BadFile
from rl.models import Agent, AuditEvent, Deployment, Evaluation, Experiment, TrainingRun, WebhookDelivery, version_name
from rl.operations.webhooks.endpoints import endpoints

logger = logging.getLogger(__name__)


def run_finished(run: TrainingRun) -> None:
    """A run that is resumed finishes once more."""
    data = {
        "run": run.pk,
        "state": run.state,
        "method": run.method,
        "trigger": run.trigger,
        "version": run.version.name if run.version else None,
        "error": run.error or None,
        "finished_at": run.finished_at.isoformat() if run.finished_at else None,
    }
    _tell("run.finished", run.agent, f"run {run.pk} {run.state}, attempt {run.attempt}, {data['finished_at']}", data)


def version_judged(evaluation: Evaluation) -> None:
    data = {
        "version": evaluation.version.name,
        "verdict": evaluation.verdict,
        "reason": evaluation.report.get("reason"),
        "measured": str(evaluation.artifact) if evaluation.artifact else "weights",
        "accuracy": evaluation.accuracy,
        "base_accuracy": evaluation.base_accuracy,
        "in_use_accuracy": evaluation.against_accuracy,
        "duels": evaluation.report.get("duels", 0),
    }
    _tell("version.judged", evaluation.version.agent, f"evaluation {evaluation.pk}", data)


def deployment_changed(event: AuditEvent, agent: Agent) -> None:
    """After a promotion, a rollback, a deployment or its end, which ``event`` has recorded."""
    in_use = version_name(Deployment.champion(agent))
    data = {"action": event.action, "target": event.target, "actor": event.actor, "in_use": in_use, **event.details}
    _tell("deployment.changed", agent, f"event {event.pk}", data)


def experiment_decided(experiment: Experiment) -> None:
    data = {"experiment": experiment.name, "verdict": experiment.verdict, "reason": experiment.reason}
    _tell("experiment.decided", experiment.agent, f"experiment {experiment.pk}", data)


def experiment_waits(experiment: Experiment, verdict: str, reason: str) -> None:
    """Told once of each experiment."""
    data = {"experiment": experiment.name, "verdict": verdict, "reason": reason}
    _tell("experiment.waits", experiment.agent, f"experiment {experiment.pk}", data)


def message(event: str, agent: str, data: dict[str, Any]) -> dict[str, Any]:
    return {"type": event, "timestamp": timezone.now().isoformat(), "data": {"agent": agent, **data}}


def _tell(event: str, agent: Agent, occurrence: str, data: dict[str, Any]) -> None:
    """The same occurrence is told once. A WEBHOOKS_FILE that cannot be read does not stop the work that it is about."""
    payload = message(event, agent.name, data)
    try:
        known = endpoints()
    except BadFile as error:
        logger.error("webhooks: no message is sent: %s", error)
        return
    rows = [
        WebhookDelivery(endpoint=name, event=event, occurrence=occurrence, payload=payload)
        for name, endpoint in known.items()
        if endpoint.wants(event, agent.name)
    ]
    WebhookDelivery.objects.bulk_create(rows, ignore_conflicts=True)
