"""Whether an agent got better over time: its measured versions in the order in which they were made."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from django.db.models import Min
from django.utils.translation import gettext as _

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

    @property
    def rung(self) -> str:
        """What makes it differ from the base model, in words."""
        run, weights = getattr(self.version, "run", None), self.version.weights
        if run is None:
            words = weights.name if weights else _("the base model")
        else:
            method = "sft" if run.config.get("preferences") is False else run.method
            words = f"{_('all weights') if run.config.get('full') else _('adapter')} ({method})"
        return _("{weights} with an instruction").format(weights=words) if self.version.instruction else words

    @property
    def minutes(self) -> float | None:
        """From the start of its run to the verdict; None where it was not trained."""
        run = getattr(self.version, "run", None)
        if run is None or run.started_at is None or run.finished_at is None:
            return None
        return (run.finished_at - run.started_at).total_seconds() / 60


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
