"""How many answers are asked of a deployed version, of which the agent's judge picks one."""

from __future__ import annotations

from django.db import transaction

from rl.base.errors import UsageError
from rl.models import Agent, Deployment, ModelVersion
from rl.models.serving import MOST_ANSWERS
from rl.operations import audit


def check_best_of(count: int) -> int:
    """Raises UsageError."""
    if not 1 <= count <= MOST_ANSWERS:
        raise UsageError(f"the best of {count} answers cannot be asked for: choose 1 to {MOST_ANSWERS}")
    return count


def set_best_of(agent: Agent, version: ModelVersion | None, count: int) -> None:
    """Wherever the version is deployed; the gateway does so within two seconds. Raises UsageError."""
    check_best_of(count)
    with transaction.atomic():
        rows = Deployment.objects.filter(agent=agent, version=version).exclude(best_of=count)
        if rows.update(best_of=count):
            subject = version or f"base model of {agent.name}"
            audit.record(audit.Action.CHANGED, subject, agent=agent, changes=f"Best of {count}.")
