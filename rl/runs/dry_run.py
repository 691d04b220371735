"""What a run would do, and about what it would cost here: nothing is written and torch is not imported."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from django.conf import settings

from rl.config import DPOConfig, TrainingConfig, config_class, find_method
from rl.config.automatic import describe_losses, settle
from rl.dataset_builder import Lengths, Survey
from rl.hardware import GIB, HardwareConfig, TrainingEstimate, detect_hardware, estimate
from rl.lm.base_models import loaded_name, local_folder
from rl.models import Agent, TrainingRun
from rl.runs.data_check import CHARACTERS_PER_TOKEN, checked_survey
from rl.runs.model_shape import model_shape
from rl.runs.past_runs import Experience, experience
from rl.runs.run import RunOptions
from rl.runs.settling import repeats_for
from rl.runs.sweep import describe_sweep

SAMPLE = 200
"""Answers that are tokenised to learn how many characters a token has."""
TEMPLATE_TOKENS = 16
"""About how many tokens a chat template adds to a prompt and its answer."""


@dataclass(frozen=True, slots=True)
class Tokens:
    """Estimated numbers of tokens, by the lengths of the rows in characters."""

    prompt: dict[str, int]
    answer: dict[str, int]
    characters_per_token: float
    measured: bool
    """Whether the ratio was measured with the base model's tokenizer, or assumed."""


@dataclass(frozen=True, slots=True)
class Plan:
    agent: str
    method: str
    base_model: str
    survey: Survey
    tokens: Tokens
    config: TrainingConfig
    estimate: TrainingEstimate | None
    """None where the size of the base model is not known here."""
    experience: Experience | None
    """What the estimate has learned from; None where there is no such run."""
    chosen: str
    """What of the configuration was chosen by the rows and the model, and why, in one line; empty: nothing."""
    sweep: str
    """What is tried before the training; empty: nothing."""
    hardware: HardwareConfig

    @property
    def document(self) -> dict[str, Any]:
        """JSON."""
        return {
            "agent": self.agent,
            "method": self.method,
            "base_model": self.base_model,
            "data": self.survey.as_dict(),
            "tokens": asdict(self.tokens),
            "config": self.config.as_dict(),
            "chosen": self.chosen,
            "sweep": self.sweep,
            "estimate": asdict(self.estimate) if self.estimate else None,
            "experience": self.experience.as_dict() if self.experience else None,
            "hardware": asdict(self.hardware),
        }

    @property
    def tables(self) -> dict[str, dict[str, Any]]:
        """Title to rows, for people."""
        lines = {name: line for name, line in (("chosen", self.chosen), ("sweep", self.sweep)) if line}
        cost = {"trained": _describe_trained(self.config), **lines, **_cost_rows(self.estimate, self.hardware)}
        return {**_tables(self.survey, self.tokens), _cost_title(self.experience): cost}


def dry_run(agent: Agent, config: TrainingConfig, options: RunOptions, method: str = "dpo") -> Plan:
    """Raises NotEnoughData as the run itself would, and UsageError for a base model that is not one."""
    base = options.base_model or agent.base_model
    directory = local_folder(base)
    survey = checked_survey(agent, config, options, method, directory)
    ratio, measured = _characters_per_token(agent, directory)
    hardware, shape = detect_hardware(settings.DATA_DIR), model_shape(directory)
    config, chosen = settle(config, method, survey.train_rows, shape, repeats_for(agent, config, options))
    tokens = _tokens(survey, ratio, config)
    cost = estimate(survey.train_rows, tokens, shape, config, hardware, method) if shape else None
    learned = experience(method, loaded_name(base), hardware, partial(_estimate_seconds, hardware)) if cost else None
    if cost and learned:
        cost = replace(cost, seconds=cost.seconds * learned.ratio)
    return Plan(
        agent=agent.name,
        method=method,
        base_model=base,
        survey=survey,
        tokens=Tokens(
            prompt=_in_tokens(survey.prompt_lengths, ratio),
            answer=_in_tokens(survey.answer_lengths, ratio) or {"max": getattr(config, "max_new_tokens", 0)},
            characters_per_token=ratio,
            measured=measured,
        ),
        config=config,
        estimate=cost,
        experience=learned,
        hardware=hardware,
        chosen=chosen,
        sweep=describe_sweep(config, survey.train_rows) if options.sweep else "",
    )


def require_data(agent: Agent, config: TrainingConfig, options: RunOptions, method: str) -> None:
    """Raises as ``dry_run``, and estimates nothing."""
    checked_survey(agent, config, options, method, local_folder(options.base_model or agent.base_model))


def _characters_per_token(agent: Agent, directory: Path) -> tuple[float, bool]:
    """The base model's own ratio on the agent's newest answers, and whether it could be measured."""
    file = directory / "tokenizer.json"
    texts = list(agent.traces.exclude(response="").values_list("response", flat=True)[:SAMPLE])
    if not file.is_file() or not texts:
        return CHARACTERS_PER_TOKEN, False
    from tokenizers import Tokenizer  # a machine without the training packages can still plan

    tokens = sum(len(encoding.ids) for encoding in Tokenizer.from_file(str(file)).encode_batch(texts))
    return (sum(map(len, texts)) / tokens, True) if tokens else (CHARACTERS_PER_TOKEN, False)


def _tokens(survey: Survey, ratio: float, config: TrainingConfig) -> float:
    """Tokens of a prompt with an answer, by the median lengths."""
    prompt, answer = survey.prompt_lengths, survey.answer_lengths
    assert prompt is not None  # noqa: S101  there is a row, else NotEnoughData was raised
    return _row_tokens(prompt.median + (answer.median if answer else 0), ratio, config, answer is not None)


def _row_tokens(characters: float, ratio: float, config: TrainingConfig, with_answer: bool) -> float:
    """Answers that are still to be generated may be as long as is allowed."""
    generated = 0 if with_answer else getattr(config, "max_new_tokens", 0)
    return characters / ratio + TEMPLATE_TOKENS + generated


def _estimate_seconds(hardware: HardwareConfig, run: TrainingRun, characters: float) -> float | None:
    """Seconds that would be estimated for a past run, before anything was learned."""
    assert run.version is not None  # noqa: S101  it succeeded
    assert run.training_set is not None  # noqa: S101
    directory = local_folder(run.version.base_model)
    config, shape = config_class(run.method)(**run.config), model_shape(directory)
    if shape is None:
        return None
    ratio, _ = _characters_per_token(run.agent, directory)
    rows = find_method(run.method).rows_with(config)
    tokens = _row_tokens(characters, ratio, config, rows.has_answers)
    return estimate(run.training_set.train_rows, tokens, shape, config, hardware, run.method).seconds


def _in_tokens(lengths: Lengths | None, ratio: float) -> dict[str, int]:
    return {name: round(value / ratio) for name, value in asdict(lengths).items()} if lengths else {}


def _tables(survey: Survey, tokens: Tokens) -> dict[str, dict[str, Any]]:
    how = "measured" if tokens.measured else "assumed"
    return {
        "Data": {
            "ratings read": survey.ratings_read,
            "ratings in rows": survey.ratings_usable,
            "rows to train on": survey.train_rows,
            "rows held out": survey.heldout_rows,
            **_scores(survey),
            "prompts (train / held out)": f"{survey.train_prompts:,} / {survey.heldout_prompts:,}",
            "contradictions": survey.contradictions,
            "duplicates": survey.duplicates,
        },
        "Left out": dict(survey.skipped.most_common()) or {"nothing": 0},
        f"Tokens (about; {tokens.characters_per_token:.1f} characters a token, {how})": {
            what: ", ".join(f"{name} {value:,}" for name, value in lengths.items())
            for what, lengths in (("prompt", tokens.prompt), ("answer", tokens.answer))
        },
    }


def _cost_title(learned: Experience | None) -> str:
    if learned is None:
        return "Cost here (an estimate, right within a factor of 2 to 3)"
    runs = f"{learned.runs} run{'s' if learned.runs > 1 else ''}"
    error = f", which were off by a factor of {learned.error:.1f}" if learned.error else ""
    return f"Cost here (an estimate; the time learned from the last {runs} on this machine{error})"


def _scores(survey: Survey) -> dict[str, str]:
    if survey.score_mean is None:
        return {}
    return {"score (mean, standard deviation)": f"{survey.score_mean:.2f}, {survey.score_std:.2f}"}


def _describe_trained(config: TrainingConfig) -> str:
    what = "all weights, in float32" if config.full else f"an adapter of rank {config.lora_r:.0f}"
    return f"{what}, by {describe_losses(config)}" if isinstance(config, DPOConfig) else what


def _cost_rows(cost: TrainingEstimate | None, hardware: HardwareConfig) -> dict[str, Any]:
    device = hardware.gpus[0].name if hardware.gpus else f"{hardware.cpu}, {hardware.usable_cores} cores"
    if cost is None:
        return {
            "device": device,
            "not known": "the base model is not on this machine yet, or its config.json does not tell its size",
        }
    return {
        "device": device,
        "optimiser steps": cost.steps,
        "time": f"{cost.seconds / 60:,.1f} minutes",
        "memory": f"{cost.peak_memory_bytes / GIB:.1f} GiB",
    }
