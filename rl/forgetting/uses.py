"""What learned from a person: training sets, the runs on them, their versions, and judges."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db.models import Q

from rl.dataset_builder.frozen.files import FEEDBACK, read_feedback_ids
from rl.forgetting.records import Left, parts
from rl.models import (
    Arm,
    Deployment,
    Experiment,
    Feedback,
    LabelModel,
    ModelVersion,
    TrainingRun,
    TrainingSet,
    TrainingSetTrace,
)


@dataclass(frozen=True, slots=True)
class Uses:
    training_sets: list[TrainingSet]
    runs: list[TrainingRun]
    versions: list[ModelVersion]
    label_models: list[int]

    def as_dict(self) -> dict[str, Any]:
        return {
            "training_sets": [
                {"id": str(row.pk), "agent": row.agent.name, "method": row.method} for row in self.training_sets
            ],
            "runs": [{"run": row.pk, "agent": row.agent.name, "state": row.state} for row in self.runs],
            "versions": [_describe(row) for row in self.versions],
            "label_models": self.label_models,
        }


def find_uses(left: Left, known_sets: Collection[UUID] = ()) -> Uses:
    """``known_sets``: what an earlier receipt names, whose rows in the database are gone."""
    agents = left.agent_ids()
    ids = {*known_sets, *_sets_with_words(left), *_sets_that_read(agents, left.feedback)}
    sets = list(TrainingSet.objects.filter(pk__in=ids).select_related("agent").order_by("created_at"))
    runs = _runs_on(sets)
    versions = [run.version for run in runs if run.version is not None]
    return Uses(sets, runs, versions, _label_models(left))


def is_in_use(version: ModelVersion) -> bool:
    """It answers people, is what one step back leads to, or is in an experiment that is not over."""
    served = version.deployments.exclude(Q(target=Deployment.Target.NONE) & Q(alias=""))
    open_arms = Arm.objects.filter(version=version).exclude(experiment__state=Experiment.State.STOPPED)
    return served.exists() or open_arms.exists()


def _sets_with_words(left: Left) -> Iterable[UUID]:
    for part in parts(left.traces):
        yield from TrainingSetTrace.objects.filter(trace__in=part).values_list("training_set", flat=True).distinct()


def _sets_that_read(agents: Collection[int], feedback: frozenset[int]) -> Iterable[UUID]:
    """Each set has a list of all feedback that was read for it; where its files are gone, the first reader is known."""
    for row in TrainingSet.objects.filter(agent__in=agents):
        listing = row.directory / FEEDBACK
        if listing.exists() and not feedback.isdisjoint(read_feedback_ids(row.directory)):
            yield row.pk
    for part in parts(feedback):
        first = Feedback.objects.filter(pk__in=part, training_set__isnull=False).order_by()
        yield from first.values_list("training_set", flat=True).distinct()


def _runs_on(sets: Iterable[TrainingSet]) -> list[TrainingRun]:
    """Also those that were rewarded by a reward model of such a run."""
    own = TrainingRun.objects.select_related("agent", "version__agent", "training_set").order_by("pk")
    runs = list(own.filter(training_set__in=list(sets)))
    rewarding = {(run.agent_id, run.version.name.lower()) for run in runs if run.version is not None}
    others = own.filter(agent__in={run.agent_id for run in runs}).exclude(pk__in=[run.pk for run in runs])
    return runs + [run for run in others if (run.agent_id, str(run.options.get("reward_model")).lower()) in rewarding]


def _label_models(left: Left) -> list[int]:
    """A judge learns from all ratings of its agent: those that were made since this person's first."""
    models: set[int] = set()
    for part in parts(left.feedback):
        first = {}
        for agent_id, at in (
            Feedback.objects.filter(pk__in=part).order_by("-created_at").values_list("agent", "created_at")
        ):
            first[agent_id] = at
        for agent_id, at in first.items():
            models.update(LabelModel.objects.filter(agent=agent_id, created_at__gte=at).values_list("pk", flat=True))
    return sorted(models)


def _describe(version: ModelVersion) -> dict[str, Any]:
    rows = version.deployments.exclude(target=Deployment.Target.NONE)
    return {
        "version": version.name,
        "agent": version.agent.name,
        "in_use": is_in_use(version),
        "artifacts": [artifact.path for artifact in version.artifacts.all()],
        "deployments": [f"{row.model_name or row.pk} on {row.target}" for row in rows],
    }
