"""Taking deployments away again: from the target first, then from the records."""

from __future__ import annotations

from django.db import transaction
from django.db.models import QuerySet

from rl.base.errors import UsageError
from rl.base.records import Report, silent
from rl.models import Agent, Deployment, ModelVersion
from rl.operations import audit
from rl.operations.webhooks.events import deployment_changed
from rl.serving import judge_server, llama_server, on_ollama

Target = Deployment.Target


def take_down(deployment: Deployment, report: Report = silent) -> None:
    """Ends the serving of one row. An alias stays with its version, which nothing serves then; a row without one goes.

    Raises ExportFailed when the target does not answer; nothing changes then.
    """
    if deployment.target == Target.LLAMA_CPP:
        llama_server.stop(deployment)
    elif deployment.target == Target.OLLAMA:
        on_ollama.remove(deployment, report)
    forget(deployment)
    judge_server.end_unwanted()


def rows_of(agent: Agent, version: ModelVersion | None) -> QuerySet[Deployment]:
    """Deployments that serve the version, the newest first."""
    return Deployment.objects.filter(agent=agent, version=version).exclude(target=Target.NONE)


def forget(deployment: Deployment) -> None:
    """Only the record; the version is retired where nothing else serves it."""
    version = deployment.version
    details = {"on": deployment.target, "model_name": deployment.model_name}
    with transaction.atomic():
        if deployment.alias:
            deployment.target, deployment.model_name, deployment.url = Target.NONE, "", ""
            deployment.save()
        else:
            deployment.delete()
        if version is not None and not rows_of(deployment.agent, version).exists():
            version.move(ModelVersion.Stage.RETIRED)
        subject = version or f"base model of {deployment.agent.name}"
        event = audit.record(audit.Action.WITHDRAWN, subject, agent=deployment.agent, **details)
        deployment_changed(event, deployment.agent)


def stop_serving(agent: Agent, version: ModelVersion | None, report: Report = silent) -> list[str]:
    """Takes the version from every target; the names that it had. Raises UsageError when nothing serves it."""
    rows = list(rows_of(agent, version))
    if not rows:
        raise UsageError(f"nothing serves {version.name if version else 'the base model'} of {agent.name}")
    names = [row.model_name for row in rows]
    for row in rows:
        take_down(row, report)
    return names
