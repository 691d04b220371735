"""Hyper-parameters that were left to choose get their values, once a run's rows and its model are known. They are stored, so
that a run that goes on later does not choose again."""

from __future__ import annotations

from contextlib import suppress

from rl import dataset_builder
from rl.base.errors import RunConflict, UsageError
from rl.base.leaves import leaf
from rl.base.records import Report
from rl.config import DPOConfig, TrainingConfig, config_class
from rl.config.automatic import OF_SIZE, Repeats, settle
from rl.dataset_builder.accepted_answers import IMITATED, for_choosing, kind_of
from rl.dataset_builder.plan.plan import TrainingPlan
from rl.hardware import ModelShape
from rl.lm.base_models import local_folder
from rl.lm.model_path import MODEL_CONFIG
from rl.models import Agent, TrainingRun, TrainingSet
from rl.runs.model_shape import model_shape
from rl.runs.run_options import RunOptions

HUB = "rl.lm.hub"


def settle_run(
    run: TrainingRun, training_set: TrainingSet, options: RunOptions, base_model: str, report: Report
) -> TrainingConfig:
    """The run's configuration, with nothing left to choose. ``base_model``: resolved before. Raises RunConflict when the run
    belongs to another process, and UsageError for a model that cannot be fetched."""
    config = config_class(run.method)(**run.config)
    if not config.automatic:
        return config
    size = _size(base_model) if set(config.automatic) & set(OF_SIZE) else None
    repeats = repeats_for(run.agent, config, options)
    answers = for_choosing(kind_of(training_set), training_set.stats.get(IMITATED, 0))
    settled, reason = settle(config, run.method, training_set.train_rows, size, repeats, answers)
    if reason:
        report("log", {"text": reason})
    if not run.beat(config=settled.as_dict()):
        raise RunConflict(f"run {run.pk} was taken over while its settings were chosen; this process stops")
    return settled


def foresee(agent: Agent, plan: TrainingPlan) -> str:
    """Which numbers a run of what the plan advises would choose now, and why, in one line; empty where it chooses none.
    Fetches nothing, and leaves it to the run to refuse a model that is none."""
    method, size = plan.advice.method, None
    config = agent.training_config(method) if method else TrainingConfig()
    if not config.automatic:
        return ""
    rows = next(of_method.rows for of_method in plan.methods if of_method.method == method)
    with suppress(UsageError):
        size = model_shape(local_folder(agent.base_model))
    repeats = repeats_for(agent, config, RunOptions(data=dataset_builder.DataOptions()))
    answers = for_choosing(plan.accepted.kind, plan.accepted.accepted)
    return settle(config, method, rows, size, repeats, answers).reason


def _size(base_model: str) -> ModelShape | None:
    """Fetches the settings of a model of the hub that is not here yet: its weights come when they are trained."""
    if not (local_folder(base_model) / MODEL_CONFIG).is_file():
        leaf(HUB).fetch_config(base_model)
    return model_shape(local_folder(base_model))


def repeats_for(agent: Agent, config: TrainingConfig, options: RunOptions) -> Repeats | None:
    """Those among the ratings that a loss wants to know of; None for a configuration that does not ask."""
    if not isinstance(config, DPOConfig) or "label_smoothing" not in config.automatic or "robust" not in config.losses:
        return None
    files = (options.data_file, options.ratings_file or None) if options.source == "file" else None
    return dataset_builder.count_repeats(agent, options.data, files)
