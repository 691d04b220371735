"""Experiments with users who rate, for the tests of all that looks at them."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from django.utils import timezone

from rl.models import Agent, Arm, Assignment, Experiment, Feedback, ModelVersion, Trace
from rl.serving.experiments import lifecycle
from rl.serving.experiments.lifecycle import Variant
from tests.admin.records import make_version


def create(
    agent: Agent,
    name: str,
    arms: Sequence[tuple[ModelVersion | None, float]],
    control: ModelVersion | None,
    **settings: Any,
) -> Experiment:
    """Of versions whose deployments say how many answers are asked for."""
    sides = [(Variant(version), weight) for version, weight in arms]
    return lifecycle.create(agent, name, sides, Variant(control), **settings)


def make_experiment(agent: Agent, *, running: bool = True, **settings: Any) -> Experiment:
    """v286 against the base model; it started two days ago."""
    version = agent.versions.filter(name="v286").first() or make_version(agent, "v286")
    values = {"name": "first", "metric": "thumbs_up", **settings}
    experiment = create(agent, values.pop("name"), [(version, 1), (None, 1)], None, **values)
    if running:
        lifecycle.start(experiment)
        Experiment.objects.filter(pk=experiment.pk).update(started_at=timezone.now() - timedelta(days=2))
        experiment.refresh_from_db()
    return experiment


def arms_of(experiment: Experiment) -> tuple[Arm, Arm]:
    """The control and the first challenger."""
    arms = list(experiment.arms.select_related("version"))
    return next(arm for arm in arms if arm.is_control), next(arm for arm in arms if not arm.is_control)


def answers(arm: Arm, units: list[str], **fields: Any) -> list[Trace]:
    """One answer for each user."""
    experiment = arm.experiment
    prompt = [{"role": "user", "content": "Where is my parcel?"}]
    common = {"agent": experiment.agent, "prompt": prompt, "prompt_key": "k", "response": "Here.", "arm": arm, **fields}
    return Trace.objects.bulk_create(Trace(unit=unit, **common) for unit in units)


def rate(traces: list[Trace], up: int, **fields: Any) -> list[Feedback]:
    """Thumbs: the first ``up`` are up."""
    common = {"kind": "rating", "scale": "thumb", "rater": "device:1", **fields}
    rows = [
        Feedback(agent=trace.agent, trace=trace, raw_value=int(n < up), value=int(n < up), **common)
        for n, trace in enumerate(traces)
    ]
    return Feedback.objects.bulk_create(rows)


def use(arm: Arm, users: int, up: int, failures: int = 0) -> None:
    """So many users get an answer each and rate it."""
    units = [f"user {arm.pk} {number}" for number in range(users)]
    rate(answers(arm, units), up)
    Arm.objects.filter(pk=arm.pk).update(requests=users + failures, failures=failures)
    Assignment.objects.bulk_create(Assignment(experiment=arm.experiment, arm=arm, unit=unit) for unit in units)


def version_of(agent: Agent, name: str = "v286") -> ModelVersion:
    return agent.versions.get(name=name)
