"""What a run would do, and about what it would cost here: no run is made and torch is not imported."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from django.conf import settings

from rl.base.leaves import leaf
from rl.base.records import Report, silent
from rl.config import DPOConfig, TrainingConfig, config_class, find_method
from rl.config.automatic import AnswerTraits, describe_losses, imitates, settle
from rl.dataset_builder import LengthSpread, Survey
from rl.dataset_builder.accepted_answers import for_choosing
from rl.dataset_builder.frozen.folding import count_folds, most_tested
from rl.hardware import GIB, REPLACED, HardwareConfig, TrainingEstimate, detect_hardware, estimate, precision_here
from rl.lm.base_models import loaded_name, local_folder, tokenizer_file
from rl.models import Agent, Deployment, TrainingRun
from rl.runs.data_check import CHARACTERS_PER_TOKEN, checked_survey
from rl.runs.past_runs import Experience, TimedModel, experience
from rl.runs.preview import ChatKinds
from rl.runs.run import RunOptions
from rl.runs.settling import model_shape, repeats_for, thinks_before
from rl.runs.sweep import describe_sweep
from rl.runs.workload import Run, Texts, past_run

SAMPLE = 200
"""Answers that are tokenised to learn how many characters a token has."""


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
    refused: Mapping[str, int]
    """Rows that the model's chat template would refuse, by its reason; none where the model is not on this machine."""
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
    tested: int = 0
    """Prompts that a cross-fitted run is tested on; 0: it is none."""
    effort: str = ""
    """What was chosen for the time that the run may take, and about how long that is; empty: nothing."""

    @property
    def precision(self) -> str:
        """What is computed in instead of what the configuration says; empty: nothing."""
        return REPLACED if precision_here(self.config, self.hardware) != self.config.precision else ""

    @property
    def document(self) -> dict[str, Any]:
        """JSON."""
        return {
            "agent": self.agent,
            "method": self.method,
            "base_model": self.base_model,
            "data": {**self.survey.as_dict(), "refused": self.refused},
            "tokens": asdict(self.tokens),
            "config": self.config.as_dict(),
            "precision": self.precision,
            "chosen": self.chosen,
            "effort": self.effort,
            "sweep": self.sweep,
            "estimate": asdict(self.estimate) if self.estimate else None,
            "experience": asdict(self.experience) if self.experience else None,
            "hardware": asdict(self.hardware),
        }

    @property
    def tables(self) -> dict[str, dict[str, Any]]:
        """Title to rows, for people."""
        notes = {"effort": self.effort, "precision": self.precision, "chosen": self.chosen, "sweep": self.sweep}
        lines = {name: line for name, line in notes.items() if line}
        trained = "all weights, in float32" if self.config.full else f"an adapter of rank {self.config.lora_r:.0f}"
        if isinstance(self.config, DPOConfig):
            trained += f", by {describe_losses(self.config)}"
        cost = {"trained": trained, **lines, **_cost_rows(self.estimate, self.hardware)}
        return {**_tables(self.survey, self.refused, self.tokens), _cost_title(self.estimate, self.experience): cost}


def dry_run(
    agent: Agent,
    config: TrainingConfig,
    options: RunOptions,
    method: str = "dpo",
    *,
    measures: bool = False,
    report: Report = silent,
) -> Plan:
    """``measures``: first times this machine with the base model where that was not done yet, in a process of its own, and
    keeps what it learns. Raises NotEnoughData as the run itself would, and UsageError for a base model that is not one."""
    config = replace(config, thinks=thinks_before(agent, config.thinks))
    texts, kinds = Texts(), ChatKinds(find_method(method).rows_with(config).name, config.manner)
    directory, cost, learned = local_folder(options.base_model_of(agent)), None, None
    survey = checked_survey(agent, config, options, method, directory, texts.saw, kinds.saw)
    ratio, measured = _characters_per_token(agent, directory)
    hardware, shape = detect_hardware(settings.DATA_DIR), model_shape(directory)
    answers = for_choosing(texts.accepted.kind(agent.answer_kind))
    survey, tested = _cross_fitted(survey, config, options, method, answers)
    answers = answers._replace(rows=texts.accepted.imitated_of(survey.train_rows))
    config, chosen = settle(config, method, survey.train_rows, shape, repeats_for(agent, config, options), answers)
    if shape:
        timed = TimedModel(directory, shape, hardware)
        if measures:
            timed.measure(config, method, report)
        estimator = _Estimator(timed, ratio)
        cost = estimator.estimate(_planned_run(agent, config, options, method, survey, tested), texts)
        learned = experience(method, loaded_name(options.base_model_of(agent)), hardware, estimator.estimate_past)
        cost = learned.correct(cost) if learned else cost
    agent.note_plan_seen()
    return Plan(
        agent=agent.name,
        method=method,
        base_model=options.base_model_of(agent),
        survey=survey,
        refused=kinds.count_refused(directory),
        tokens=_count_tokens(survey, config, ratio, measured),
        config=config,
        estimate=cost,
        experience=learned,
        hardware=hardware,
        chosen=chosen,
        tested=tested,
        sweep=describe_sweep(config, survey.train_rows) if options.sweep else "",
    )


def _cross_fitted(
    survey: Survey, config: TrainingConfig, options: RunOptions, method: str, answers: AnswerTraits
) -> tuple[Survey, int]:
    """Where the run will be, with nothing held out; and about how many prompts are tested, 0 where it will not be."""
    cross_fits = imitates(config, method, "closed") and not options.launch.is_needed
    if not (cross_fits and answers.kind != "free" and options.data.val_split):
        return survey, 0
    rows, prompts = survey.train_rows + survey.heldout_rows, survey.train_prompts + survey.heldout_prompts
    learned = replace(survey, train_rows=rows, heldout_rows=0, train_prompts=prompts, heldout_prompts=0)
    return learned, most_tested(prompts, options.data.val_split, answers.kind)


def _planned_run(
    agent: Agent, config: TrainingConfig, options: RunOptions, method: str, survey: Survey, tested: int
) -> Run:
    return Run(
        agent=agent,
        config=config,
        method=method,
        options=options,
        rows=survey.train_rows,
        heldout_rows=survey.heldout_rows,
        heldout_prompts=survey.heldout_prompts,
        has_champion=Deployment.champion(agent) is not None,
        folds=count_folds(survey.train_prompts, tested) if tested else 0,
        tested=tested,
        tested_share=tested / max(survey.train_prompts, 1),
    )


def require_data(agent: Agent, config: TrainingConfig, options: RunOptions, method: str) -> None:
    """Raises as ``dry_run``, and estimates nothing."""
    checked_survey(agent, config, options, method, local_folder(options.base_model_of(agent)))


def _characters_per_token(agent: Agent, directory: Path) -> tuple[float, bool]:
    """The base model's own ratio on the agent's newest answers, and whether it could be measured."""
    file = tokenizer_file(directory)
    texts = list(agent.traces.exclude(response="").values_list("response", flat=True)[:SAMPLE])
    if not file or not texts:
        return CHARACTERS_PER_TOKEN, False
    tokenizer = leaf("tokenizers").Tokenizer.from_file(str(file))
    tokens = sum(len(encoding.ids) for encoding in tokenizer.encode_batch(texts))
    return (sum(map(len, texts)) / tokens, True) if tokens else (CHARACTERS_PER_TOKEN, False)


@dataclass(frozen=True, slots=True)
class _Estimator:
    model: TimedModel
    characters_per_token: float

    def estimate(self, run: Run, texts: Texts) -> TrainingEstimate:
        speed = self.model.speed(run.config)
        work = run.workload(texts, self.characters_per_token, speed)
        return estimate(work, self.model.shape, run.config, self.model.hardware, run.trains_as, speed)

    def estimate_past(self, run: TrainingRun) -> TrainingEstimate | None:
        """A run with the same base model, before anything was learned."""
        past = past_run(run, config_class(run.method)(**run.config))
        return self.estimate(*past) if past else None


def _count_tokens(survey: Survey, config: TrainingConfig, ratio: float, measured: bool) -> Tokens:
    longest = _in_tokens(survey.answer_lengths, ratio) or {"max": getattr(config, "max_new_tokens", 0)}
    return Tokens(_in_tokens(survey.prompt_lengths, ratio), longest, ratio, measured)


def _in_tokens(lengths: LengthSpread | None, ratio: float) -> dict[str, int]:
    return {name: round(value / ratio) for name, value in asdict(lengths).items()} if lengths else {}


def _tables(survey: Survey, refused: Mapping[str, int], tokens: Tokens) -> dict[str, dict[str, Any]]:
    how = "measured" if tokens.measured else "assumed"
    scores = {}
    if survey.score_mean is not None:
        scores["score (mean, standard deviation)"] = f"{survey.score_mean:.2f}, {survey.score_std:.2f}"
    return {
        "Data": {
            "ratings read": survey.ratings_read,
            "ratings in rows": survey.ratings_usable,
            "rows to train on": survey.train_rows,
            "rows held out": survey.heldout_rows,
            **scores,
            "prompts (train / held out)": f"{survey.train_prompts:,} / {survey.heldout_prompts:,}",
            "contradictions": survey.contradictions,
            "duplicates": survey.duplicates,
            **survey.taken,
        },
        "Left out": {**dict(survey.skipped.most_common()), **refused} or {"nothing": 0},
        f"Tokens (about; {tokens.characters_per_token:.1f} characters a token, {how})": {
            what: ", ".join(f"{name} {value:,}" for name, value in lengths.items())
            for what, lengths in (("prompt", tokens.prompt), ("answer", tokens.answer))
        },
    }


def _cost_title(cost: TrainingEstimate | None, learned: Experience | None) -> str:
    if learned is None and cost and cost.measured:
        return "Cost here (an estimate, by layers that were timed here)"
    if learned is None:
        return "Cost here (a guess by the kind of machine, right within a factor of 3)"
    runs = f"{learned.runs} run{'s' if learned.runs > 1 else ''}"
    error = f", which were off by a factor of {learned.error:.1f}" if learned.error else ""
    return f"Cost here (an estimate, learned from the last {runs} on this machine{error})"


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
        **{f"  {part}": f"{seconds / 60:,.1f} minutes" for part, seconds in cost.parts.items()},
        "memory": f"{cost.peak_memory_bytes / GIB:.1f} GiB",
    }
