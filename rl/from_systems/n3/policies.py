"""Policies as N3 knows them: an agent's scored answers, trained into versions that are numbered by their feedback. Beside
the weights of each version of an agent that N3's clients score lies N3's ``training_results.json``."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from django.db.models import Avg, QuerySet, StdDev

from rl.base.errors import NotEnoughData, UsageError
from rl.config import TrainingConfig
from rl.config.authority import require_trainers
from rl.from_systems.n3 import returns
from rl.from_systems.n3.result_file import FILE, Histories, TrainingResult
from rl.lm.model_path import ADAPTER, MODEL
from rl.models import Agent, Feedback, ModelVersion, TrainingRun
from rl.runs import run as runs
from rl.runs import supervisor
from rl.runs.dry_run import dry_run, require_data
from rl.runs.supervisor import run_ended
from rl.scoring import rollouts
from rl.training import TrainingPipeline
from rl.versions import versions

FEWEST = 10
"""Fewest scored answers that a training needs."""
REWARD_MODEL = "reward_model"


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
    snake = {name: re.sub(r"(?<=[a-z0-9])([A-Z])", lambda match: f"_{match[1].lower()}", name) for name in request}
    values = {snake[name]: value for name, value in request.items() if value is not None}
    if method := str(values.pop("method", "")):
        return _settings(agent, method, values)
    try:
        advised = TrainingPipeline(agent).advise().method
        settings = _settings(agent, advised, values, is_advised=True)
        require_data(agent, settings[1], settings[2], advised)
        return settings
    except NotEnoughData:
        # a reward model first, then PPO against it: each score teaches the first, however few there are
        return _settings(agent, "ppo" if versions.list_trained(agent).exists() else REWARD_MODEL, values)


def _settings(
    agent: Agent, method: str, values: Mapping[str, Any], *, is_advised: bool = False
) -> tuple[str, TrainingConfig, runs.RunOptions]:
    values = dict(values)
    base_model, scorer = str(values.pop("base_model", "")), str(values.pop(REWARD_MODEL, ""))
    pipeline = TrainingPipeline(agent, method="" if is_advised else method)
    require_trainers(values)
    config, options = pipeline.chosen_settings(method, values, base_model, {"min_samples": 1})
    options = _with_reward_model(agent, method, options, scorer)
    if rollouts.generates(method, config) and not options.reward_model:
        try:
            rollouts.require_rewards(agent)
        except NotEnoughData as error:
            raise NotEnoughData(f"train a reward model first, with the method '{REWARD_MODEL}': {error}") from error
    return method, config, options


def _with_reward_model(agent: Agent, method: str, options: runs.RunOptions, name: str) -> runs.RunOptions:
    """PPO learns from the reward model of that name, else from the agent's newest, as N3's does: a trainer chooses among
    those that were trained here. Raises UsageError for a name that none has."""
    if not name and method != "ppo":
        return options
    trained = versions.list_trained(agent)
    version = trained.filter(name__iexact=name).first() if name else trained.first()
    if version is None and name:
        known = ", ".join(trained.values_list("name", flat=True)[:20]) or "none yet"
        raise UsageError(f"{agent.name} has no reward model {name!r}; there are: {known}")
    if version is None:
        return options
    path = versions.find(agent, str(versions.weights_directory(version)))
    return replace(options, reward_model=str(path), origins={**options.origins, REWARD_MODEL: version.name})


def estimate_training(agent: Agent, request: Mapping[str, Any]) -> dict[str, Any]:
    """N3's answer to a dry run; nothing is written."""
    count, (method, config, options) = require_enough(agent), settings_for(agent, request)
    plan = dry_run(agent, config, options, method)
    cost = plan.estimate
    scores = scores_of(agent).aggregate(mean=Avg("value"), std=StdDev("value"))  # of the population
    return {
        "status": "dry_run",
        "method": method,
        "feedbackCount": count,
        "estimatedSteps": cost and cost.steps,
        "estimatedTimeMinutes": cost and round(cost.seconds / 60, 2),
        "scoreMean": scores["mean"],
        "scoreStd": scores["std"],
        "modelConfig": {
            "base_model": plan.base_model,
            "use_lora": not config.full,
            "lora_r": None if config.full else int(config.lora_r),
            "learning_rate": config.learning_rate,
        },
    }


def train(agent: Agent, request: Mapping[str, Any]) -> TrainingRun:
    """Queues a run. Raises NotEnoughData, UsageError, and RunConflict when one is queued or running."""
    require_enough(agent)
    method, config, options = settings_for(agent, request)
    require_data(agent, config, options, method)
    options = replace(options, name_by_feedback=True)
    run = runs.create(agent, method_name=method, config=config, options=options)
    supervisor.enqueue(run)
    return run


def as_policies(of_agent: Sequence[ModelVersion]) -> list[dict[str, Any]]:
    """N3's list. ``trainedOn`` is what its code and pages read, ``metrics`` what its guide shows: the same figures."""
    metrics = returns.metrics(of_agent)
    return [
        {
            "id": str(version.pk),
            "agentId": version.agent.name,
            "version": version.name,
            "createdAt": version.created_at,
            "trainedOn": metrics[version.pk],
            "metrics": metrics[version.pk],
        }
        for version in of_agent
    ]


def as_result(run: TrainingRun, url: str) -> dict[str, Any]:
    """N3's answer to a training, finished or not."""
    version = run.version
    return {
        "status": "trained" if run.state == TrainingRun.State.SUCCEEDED else run.state,
        "runUrl": url,
        "method": run.method,
        "step": run.step,
        "totalSteps": run.total_steps,
        "error": run.error,
        "policyId": str(version.pk) if version else None,
        "version": version and version.name,
        "modelPath": version and model_path(run, version),
        "rewardModelPath": run.options.get(REWARD_MODEL) or None,
        "trainingSteps": run.step,
        **(returns.metrics([version])[version.pk] if version else returns.UNKNOWN),
    }


def model_path(run: TrainingRun, version: ModelVersion) -> str:
    """The folder of the adapter or the model, with its tokenizer, on the site's machine."""
    return str(versions.version_directory(version) / (MODEL if run.config.get("full") else ADAPTER))


SOURCES = ("policies", "n3")
"""Where feedback came from: N3's calls, and its files."""


def connect() -> None:
    run_ended.connect(_write_results, dispatch_uid="n3 training results")


def _write_results(run: TrainingRun, **signal: Any) -> None:
    if run.state != TrainingRun.State.SUCCEEDED or run.version is None:
        return
    if Feedback.objects.filter(agent=run.agent, source__in=SOURCES).order_by().exists():
        result_of(run).save(versions.version_directory(run.version) / FILE)


def result_of(run: TrainingRun) -> TrainingResult:
    """The result of a run that has made a version. The final reward is that of its steps, as N3's, where it was rewarded in
    them, else that of the version's fresh answers."""
    assert run.version is not None  # noqa: S101  the caller's
    history = returns.histories([run.pk]).get(run.pk, Histories())
    fresh = returns.fresh_rewards([run.version.pk]).get(run.version.pk, {})
    return TrainingResult(
        model_path=model_path(run, run.version),
        reward_model_path=run.options.get(REWARD_MODEL) or None,
        feedback_count=run.version.feedback_count,
        final_reward_mean=history.mean if history.reward else fresh.get("rewardMean"),
        final_reward_std=history.std if history.reward else fresh.get("rewardStd"),
        training_steps=run.step,
        reward_history=history.reward,
        kl_history=history.kl,
        loss_history=history.loss,
    )
