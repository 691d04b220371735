"""Policies as N3 knows them: an agent's scored answers, trained into versions that are numbered by their feedback. Beside
the weights of each version of an agent that N3's clients score lies N3's ``training_results.json``.

What policies earn, N3 calls ``rewardMean`` and ``rewardStd``: of a version's fresh answers by the newest reward model, which
compares versions of all methods; where there is none, of the steps of a training that was rewarded. They rise where training
helps, while the scores that people gave do not change by training, so those are ``scoreMean`` and ``scoreStd`` here."""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from django.db.models import Avg, QuerySet, StdDev

from rl.base.errors import NotEnoughData, UsageError
from rl.config import TrainingConfig, find_method
from rl.config.authority import require_trainers
from rl.evaluation.evaluate import FIGURE
from rl.from_systems.n3.result_file import FILE, NAMES, Histories, TrainingResult
from rl.lm.model_path import ADAPTER, MODEL
from rl.models import Agent, Evaluation, Feedback, MetricPoint, ModelVersion, TrainingRun
from rl.runs import run as runs
from rl.runs import supervisor
from rl.runs.dry_run import dry_run, require_data
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
    if find_method(method).generates_with(config) and not options.reward_model:
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
    figures = metrics(of_agent)
    return [
        {
            "id": str(version.pk),
            "agentId": version.agent.name,
            "version": version.name,
            "createdAt": version.created_at,
            "trainedOn": figures[version.pk],
            "metrics": figures[version.pk],
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
        **(metrics([version])[version.pk] if version else UNKNOWN),
    }


def model_path(run: TrainingRun, version: ModelVersion) -> str:
    """The folder of the adapter or the model, with its tokenizer, on the site's machine."""
    return str(versions.version_directory(version) / (MODEL if run.config.get("full") else ADAPTER))


def write_results(run: TrainingRun, **signal: Any) -> None:
    """For ``run_ended``."""
    if run.state != TrainingRun.State.SUCCEEDED or run.version is None:
        return
    from_n3 = ("policies", "n3")  # its calls, and its files
    if Feedback.objects.filter(agent=run.agent, source__in=from_n3).order_by().exists():
        result_of(run).save(versions.version_directory(run.version) / FILE)


def result_of(run: TrainingRun) -> TrainingResult:
    """The result of a run that has made a version. The final reward is that of its steps, as N3's, where it was rewarded in
    them, else that of the version's fresh answers."""
    assert run.version is not None  # noqa: S101  the caller's
    history = histories([run.pk]).get(run.pk, Histories())
    fresh = fresh_rewards([run.version.pk]).get(run.version.pk, {})
    rewards = {"final_reward_mean": fresh.get("rewardMean"), "final_reward_std": fresh.get("rewardStd")}
    return history.result(
        model_path=model_path(run, run.version),
        reward_model_path=run.options.get(REWARD_MODEL) or None,
        feedback_count=run.version.feedback_count,
        training_steps=run.step,
        **({} if history.reward else rewards),
    )


def histories(runs: Iterable[int]) -> dict[int, Histories]:
    """The histories of these runs, by their number, from the metrics that were stored while they trained: one query."""
    by_run: defaultdict[int, Histories] = defaultdict(Histories)
    columns = [f"values__{name}" for name in NAMES]
    points = MetricPoint.objects.filter(run__in=list(runs)).order_by("run", "step")
    for run, *numbers in points.values_list("run_id", *columns):
        by_run[run].add(dict(zip(NAMES, numbers, strict=True)))
    return dict(by_run)


def metrics(versions: Sequence[ModelVersion]) -> dict[int, dict[str, Any]]:
    """Version to N3's figures of its training. What a reward model gives answers is not what a policy earned."""
    by_version = _runs(version__in=[version.pk for version in versions])
    runs = by_version.values()
    earned = histories(run.pk for run in runs if not find_method(run.method).scores)
    names = {(run.agent_id, _judge_of(run)) for run in runs if _judge_of(run)}
    which = {"version__agent__in": [agent for agent, _ in names], "version__name__in": [name for _, name in names]}
    made = _runs(**which).values() if names else ()
    judges = {(run.agent_id, run.version.name): run for run in made if run.version}
    fresh, figures = fresh_rewards(by_version), {}
    for version in versions:
        run = by_version.get(version.pk)
        history = earned.get(run.pk, Histories()) if run else Histories()
        scores = _scores(run) or _scores(judges.get((run.agent_id, _judge_of(run)))) if run else {}
        figures[version.pk] = {
            "feedbackCount": version.feedback_count,
            "rewardMean": history.mean,
            "rewardStd": history.std,
            "rewardModel": None,
            "scoreMean": scores.get("mean"),
            "scoreStd": scores.get("std"),
            **fresh.get(version.pk, {}),
        }
    return figures


def fresh_rewards(versions: Iterable[int]) -> dict[int, dict[str, Any]]:
    """Version to what its fresh answers earned, on N3's scale of -1 to 1, by the newest evaluation that says it: one
    query."""
    known = Evaluation.objects.filter(version__in=list(versions), report__has_key=FIGURE).order_by("created_at")
    return {
        version: {
            "rewardMean": 2 * figure["mean"] - 1,
            "rewardStd": 2 * figure["std"],
            "rewardModel": figure["reward_model"],
        }
        for version, figure in known.values_list("version_id", f"report__{FIGURE}")
    }


def _runs(**which: Any) -> dict[int, TrainingRun]:
    """By the version that each made."""
    runs = TrainingRun.objects.select_related("training_set", "version").filter(**which)
    return {run.version_id: run for run in runs if run.version_id is not None}


def _judge_of(run: TrainingRun) -> str:
    return str(run.options.get("origins", {}).get("reward_model") or "")


def _scores(run: TrainingRun | None) -> dict[str, float]:
    """Those that it learned from; a policy has none, and its reward model has."""
    return dict((run.training_set.stats if run and run.training_set else {}).get("scores", {}))


UNKNOWN: Mapping[str, None] = dict.fromkeys(
    ("feedbackCount", "rewardMean", "rewardStd", "rewardModel", "scoreMean", "scoreStd")
)
"""The figures of a training that has made no version."""
