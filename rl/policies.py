"""Policies as N3 knows them: an agent's scored answers, trained into versions that are numbered by their feedback.

Imports: base, config, lm, models, runs, training, versions; Django.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from django.db.models import Avg, QuerySet, StdDev

from rl.base.errors import NotEnoughData
from rl.config import TrainingConfig
from rl.config.authority import require_trainers
from rl.lm.model_path import ADAPTER, MODEL
from rl.models import Agent, Feedback, ModelVersion, TrainingRun
from rl.runs import run as runs
from rl.runs import supervisor
from rl.runs.dry_run import dry_run, require_data
from rl.training import TrainingPipeline
from rl.versions import versions

FEWEST = 10
"""Fewest scored answers that a training needs."""


def mean_and_deviation(feedback: QuerySet[Feedback]) -> tuple[float | None, float | None]:
    """Mean and standard deviation of the ratings, on a scale of 0 to 1; None without any."""
    figures = feedback.aggregate(mean=Avg("value"), std=StdDev("value"))
    return figures["mean"], figures["std"]


def scores_of(agent: Agent) -> QuerySet[Feedback]:
    return Feedback.objects.filter(agent=agent, kind=Feedback.Kind.RATING, is_current=True).order_by()


def require_enough(agent: Agent) -> int:
    """How many scored answers there are. Raises NotEnoughData that says how many are missing."""
    count = scores_of(agent).count()
    if count < FEWEST:
        raise NotEnoughData(
            f"{agent.name} has {count} feedback samples, and {FEWEST} are needed: {FEWEST - count} more are missing"
        )
    return count


def settings_for(agent: Agent, request: Mapping[str, Any]) -> tuple[str, TrainingConfig, runs.RunOptions]:
    """Method, hyper-parameters and options from a request's camelCase names, as a trainer may ask for them. Raises
    UsageError, NotEnoughData."""
    values = {_snake(name): value for name, value in request.items() if value is not None}
    base_model = str(values.pop("base_model", ""))
    pipeline = TrainingPipeline(agent, method=str(values.pop("method", "")))
    require_trainers(values)
    method = pipeline.method or pipeline.advise().method
    return method, *pipeline.chosen_settings(method, values, base_model, {"min_samples": 1})


def estimate_training(agent: Agent, request: Mapping[str, Any]) -> dict[str, Any]:
    """N3's answer to a dry run; nothing is written."""
    count, (method, config, options) = require_enough(agent), settings_for(agent, request)
    plan = dry_run(agent, config, options, method)
    cost, (mean, deviation) = plan.estimate, mean_and_deviation(scores_of(agent))
    return {
        "status": "dry_run",
        "method": method,
        "feedbackCount": count,
        "estimatedSteps": cost and cost.steps,
        "estimatedTimeMinutes": cost and round(cost.seconds / 60, 2),
        "scoreMean": mean,
        "scoreStd": deviation,
        "modelConfig": {
            "base_model": plan.base_model,
            "use_lora": not config.full,
            "learning_rate": config.learning_rate,
        },
    }


def train(agent: Agent, request: Mapping[str, Any]) -> TrainingRun:
    """Queues a run. Raises NotEnoughData, UsageError, and RunConflict when one is queued or running."""
    require_enough(agent)
    method, config, options = settings_for(agent, request)
    require_data(agent, config, options, method)
    run = runs.create(agent, method_name=method, config=config, options=options)
    supervisor.enqueue(run)
    return run


def as_policy(version: ModelVersion) -> dict[str, Any]:
    return {
        "id": version.pk,
        "agentId": version.agent.name,
        "version": version.name,
        "createdAt": version.created_at,
        "metrics": metrics(version),
    }


def metrics(version: ModelVersion) -> dict[str, Any]:
    """Count, mean and standard deviation of the ratings that the version's training set read."""
    run = TrainingRun.objects.select_related("training_set").filter(version=version).first()
    scores = (run.training_set.stats if run and run.training_set else {}).get("scores", {})
    return {
        "feedbackCount": version.feedback_count,
        "rewardMean": scores.get("mean"),
        "rewardStd": scores.get("std"),
    }


def as_result(run: TrainingRun, url: str) -> dict[str, Any]:
    """N3's answer to a training, finished or not."""
    version = run.version
    known = metrics(version) if version else {"feedbackCount": None, "rewardMean": None, "rewardStd": None}
    return {
        "status": "trained" if run.state == TrainingRun.State.SUCCEEDED else run.state,
        "runUrl": url,
        "method": run.method,
        "step": run.step,
        "totalSteps": run.total_steps,
        "error": run.error,
        "policyId": version and version.pk,
        "version": version and version.name,
        "modelPath": version
        and str(versions.version_directory(version) / (MODEL if run.config.get("full") else ADAPTER)),
        "rewardModelPath": run.options.get("reward_model") or None,
        "trainingSteps": run.step,
        **known,
    }


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])([A-Z])", lambda match: f"_{match[1].lower()}", name)
