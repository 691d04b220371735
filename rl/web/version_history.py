"""Whether an agent got better over time: its measured versions in the order in which they were made."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from django.db.models import Min

from rl.models import Agent, AuditEvent, ModelVersion
from rl.operations.audit import describe
from rl.web.dashboard_counts import newest_evaluations
from rl.web.version_figures import Bar, standing

MOST: Final = 50
"""The newest versions that are looked at."""


@dataclass(frozen=True, slots=True)
class MeasuredVersion:
    version: ModelVersion
    bar: Bar
    promoted_at: datetime | None
    """For the first time."""


def measured_versions(agent: Agent, versions: Sequence[ModelVersion]) -> list[MeasuredVersion]:
    """The oldest first. ``versions``: of the agent with their runs, the newest first. Two queries."""
    evaluations = newest_evaluations(versions)
    bars = {
        version: bar
        for version in reversed(versions)
        if version.pk in evaluations and not version.is_reward_model and (bar := standing(evaluations[version.pk]))
    }
    names = {version: describe(version) for version in bars}
    events = AuditEvent.objects.filter(action=AuditEvent.Action.PROMOTED, agent=agent.name, at__gte=agent.created_at)
    first = events.filter(target__in=names.values()).order_by().values_list("target").annotate(Min("at"))
    promoted = dict(first)
    return [MeasuredVersion(version, bar, promoted.get(names[version])) for version, bar in bars.items()]
