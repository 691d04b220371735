"""Hyper-parameters that were left to choose get their values, once a run's rows and its model are known. They are stored, so
that a run that goes on later does not choose again."""

import json
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from rl import dataset_builder
from rl.base.errors import RunConflict, UsageError
from rl.base.leaves import leaf
from rl.base.records import Report
from rl.collect.feedback.kept_answers import read_kept_answers
from rl.config import DPOConfig, TrainingConfig
from rl.config.automatic import OF_SIZE, Repeats, settle
from rl.dataset_builder.accepted_answers import IMITATED, for_choosing, kind_of
from rl.dataset_builder.plan.plan import TrainingPlan
from rl.hardware import ModelShape
from rl.lm.base_models import local_folder
from rl.lm.model_path import MODEL_CONFIG
from rl.models import Agent, TrainingRun, TrainingSet
from rl.runs.choosing import RunOptions
from rl.runs.terms import RunTerms

HUB = "rl.lm.hub"


def settle_run(run: TrainingRun, terms: RunTerms, training_set: TrainingSet, report: Report) -> TrainingConfig:
    """The run's configuration, with nothing left to choose; its base model was resolved before. Raises RunConflict when the
    run belongs to another process, and UsageError for a model that cannot be fetched."""
    config = terms.config
    if config.thinks and not thinks_before(run.agent, config.thinks):
        report("log", {"text": "its answers keep to a form from their first word on, so it does not think before them"})
        config = replace(config, thinks=False)
        keep(run, "its settings were chosen", config=config.as_dict())
    if not config.automatic:
        return config
    size = None
    if set(config.automatic) & set(OF_SIZE):
        if not (local_folder(terms.base_model) / MODEL_CONFIG).is_file():
            leaf(HUB).fetch_config(terms.base_model)  # of a model of the hub: its weights come when they are trained
        size = model_shape(local_folder(terms.base_model))
    repeats = repeats_for(run.agent, config, terms.options)
    answers = for_choosing(kind_of(training_set), training_set.stats.get(IMITATED, 0))
    settled, reason = settle(config, run.method, training_set.train_rows, size, repeats, answers)
    if reason:
        report("log", {"text": reason})
    keep(run, "its settings were chosen", config=settled.as_dict())
    return settled


def thinks_before(agent: Agent, thinks: bool) -> bool:
    """``thinks``: as it is set. What keeps to a form does so from its first word on. ``agent``: may be new."""
    return thinks and not (agent.pk and read_kept_answers(agent))


def keep(run: TrainingRun, when: str, **values: Any) -> None:
    """Stores values of the run. Raises RunConflict where it is not this process's any more."""
    if not run.beat(**values):
        raise RunConflict(f"run {run.pk} was taken over while {when}; this process stops")


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


def repeats_for(agent: Agent, config: TrainingConfig, options: RunOptions) -> Repeats | None:
    """Those among the ratings that a loss wants to know of; None for a configuration that does not ask."""
    if not isinstance(config, DPOConfig) or "label_smoothing" not in config.automatic or "robust" not in config.losses:
        return None
    return dataset_builder.count_repeats(agent, options.data, options.files)


def model_shape(directory: Path) -> ModelShape | None:
    """From the model's config.json; None when the model is not on this machine yet, or does not tell its size.

    Counts a Llama-like transformer: attention with grouped keys and values, a gated feed-forward, embeddings.
    """
    values = model_config(directory)
    hidden, layers, heads = (
        values.get(name) or values.get(older)
        for name, older in (
            ("hidden_size", "n_embd"),
            ("num_hidden_layers", "n_layer"),
            ("num_attention_heads", "n_head"),
        )
    )
    if not (hidden and layers and heads and values.get("vocab_size")):
        return None
    shared = (values.get("num_key_value_heads") or heads) / heads
    inner = values.get("intermediate_size") or values.get("n_inner") or 4 * hidden
    block = hidden * hidden * (2 + 2 * shared) + 3 * hidden * inner
    tied = bool(values.get("tie_word_embeddings"))
    embeddings = values["vocab_size"] * hidden * (1 if tied else 2)
    return ModelShape(int(layers * block + embeddings), layers, hidden, values["vocab_size"], tied)


def model_config(directory: Path) -> dict[str, Any]:
    """Settings of the language model, out of its config.json; empty when the model is not on this machine."""
    file = directory / "config.json"
    if not file.is_file():
        return {}
    try:
        values = json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise UsageError(f"{file} is not JSON: {error}") from None
    values = values.get("text_config", values) if isinstance(values, dict) else {}
    return values if isinstance(values, dict) else {}
