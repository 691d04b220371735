"""Hyper-parameters by what is there: rows, the size of the model, the method.

Measured on SmolLM2-135M (hidden size 576) with 39 pairs: adapters on the top third of the layers, 2e-4, four rows a step
and 50 to 60 steps teach what people see; 5e-4 breaks the model, and 8 steps at 1e-4 change nothing. From there:

- learning rate: 2e-4 x 576 / hidden size, between 2e-5 and 1e-3; a tenth where all weights are trained; half as much again
  for MPO, which imitates what it prefers and so stays fluent; 1e-3 for a reward model, whose head starts at 0: with 50 pairs
  it orders 0.96 of a job's pairs and 0.83 of a taste's rightly, and at 2e-4 0.78 and 0.81; and 1e-3 for KTO, which at 2e-4
  has changed nothing after 76 steps (benchmarks/method_rates.py);
- rows a step: 4 up to 256 rows, 8 up to 1,024, 16 above;
- passes: as many as make 60 steps, at most 10; at least 2 below 1,000 rows;
- layers: the top third, at least 4, of a model with 12 or more, below 2,000 rows; else all;
- dropout of the adapter: none below 2,000 rows.

Imitation of accepted answers (SFT) bears far more, and jobs that have right answers need it. Measured on SmolLM2-135M with
three jobs of 12 to 200 rows, five draws: at 1e-3 all of them are learned whatever the number of rows, in steps and not in
passes; at 3e-4 in two passes a third of the rows is.

- learning rate: 1e-3 x 576 / hidden size where the answers have right ones, 3e-4 x 576 / hidden size where they are free;
- rows a step: 8;
- steps: of a closed set at least 40, 6 for each of its answers, and 4 passes; of a structure at least 80 and 6 passes; of
  free answers as above;
- layers: of a structure all."""

import math
from dataclasses import replace
from typing import Any, NamedTuple, Protocol

from rl.config.base import TrainingConfig
from rl.config.method_configs import SMOOTHED, DPOConfig, GRPOConfig, MPOConfig
from rl.config.methods import find_method
from rl.config.ppo_config import PPOConfig
from rl.config.steps_and_rates import choose_for_rewards, cut, scale_rate, step_in_words

LEAST_STEPS, MOST_PASSES = 60, 10
LEAST_REPEATS = 20
"""Repeated ratings from which on their disagreement says more than a guess."""
OF_SIZE = ("learning_rate", "train_layers")
"""What depends on the model's size."""
_RATE, _RIGHT_RATE, _FREE_RATE = 2e-4, 1e-3, 3e-4
_FASTER = {"mpo": 1.5, "reward_model": 5, "kto": 5}
"""Methods that bear a higher rate, and how much."""
_ROWS_A_STEP = 8
"""What imitation takes."""
_CLOSED_STEPS, _STEPS_AN_ANSWER, _CLOSED_PASSES = 40, 6, 4
_STRUCTURED_STEPS, _STRUCTURED_PASSES = 80, 6
_FEW_ROWS, _SOME_ROWS, _MANY_ROWS = 256, 1024, 2000
_SEVERAL_PASSES_BELOW = 1000
_LAYERS_TO_CHOOSE_FROM, _LEAST_LAYERS = 12, 4
_DROPOUT = 0.05


class Size(Protocol):
    """A model's, as far as the choice depends on it."""

    @property
    def parameters(self) -> int: ...
    @property
    def layers(self) -> int: ...
    @property
    def hidden_size(self) -> int: ...


class Repeats(NamedTuple):
    """Judgements that say again what somebody judged before."""

    judgements: int
    flip_rate: float
    """Probability that a judgement is the wrong way round, 0 to 0.4, from how often two of the same disagree."""


class AnswerTraits(NamedTuple):
    """What the accepted answers are, as far as the choice depends on it."""

    kind: str = "free"
    """closed, structured or free."""
    distinct: int = 0
    """Answers of a closed set."""
    reason: str = ""
    """Why they are held to be so."""
    rows: int = 0
    """Those that imitation learns from, each text once; 0: as many as there are rows."""


class Settled(NamedTuple):
    config: TrainingConfig
    reason: str
    """One line: what was chosen, and why. Empty where nothing was left to choose."""


def settle(
    config: TrainingConfig,
    method: str,
    rows: int,
    size: Size | None = None,
    repeats: Repeats | None = None,
    answers: AnswerTraits = AnswerTraits(),  # noqa: B008  a constant
) -> Settled:
    """The configuration with a value for each of its automatic hyper-parameters. ``size``: None where it is not known; what
    depends on it keeps its default. ``repeats``: of the ratings, where the loss reads ``label_smoothing``."""
    chosen: dict[str, Any] = {"preferences": answers.kind == "free"}
    if imitates(config, method, answers.kind):
        rows = min(rows, answers.rows or rows)
        chosen |= _for_imitation(config, rows, answers) | _size_for_imitation(config, rows, size, answers)
    elif isinstance(config, (GRPOConfig, PPOConfig)):
        chosen |= choose_for_rewards(config, rows, size.hidden_size if size else None)
    else:
        chosen |= _by_rows(config, method, rows) | _by_size(config, method, rows, size)
    if isinstance(config, DPOConfig):
        chosen["label_smoothing"] = _smoothing(config, repeats)
    values = {name: value for name, value in chosen.items() if name in config.automatic}
    if "learning_rate" in values:
        values["learning_rate"] *= config.learning_rate_multiplier
    settled = replace(config, **values, automatic=())
    lines = [
        _imitation_line(config.automatic, answers),
        _numbers(settled, rows, size, config.automatic),
        _smoothing_line(settled, repeats, config.automatic),
    ]
    return Settled(settled, "; ".join(filter(None, lines)))


def imitates(config: TrainingConfig, method: str, kind: str) -> bool:
    """Whether accepted answers of this kind are imitated and nothing more."""
    if isinstance(config, MPOConfig):
        return kind != "free" if "preferences" in config.automatic else not config.preferences
    return find_method(method).imitates


def settle_warm_up(config: TrainingConfig, rows: int, hidden_size: int, answers: AnswerTraits) -> TrainingConfig:
    """The imitation that comes before a method: at its own rate, and for so many passes as it would take by itself where
    the configuration has no number of them. Steps of whole groups are none of its own."""
    if isinstance(config, GRPOConfig):
        batch = min(_ROWS_A_STEP, int(config.batch_size))
        config = replace(config, batch_size=batch, gradient_accumulation=round(_ROWS_A_STEP / batch))
    rate = config.sft_learning_rate or _imitation_rate(config, hidden_size, answers.kind)
    epochs = config.sft_epochs if config.sft_epochs > 0 else _for_imitation(config, rows, answers)["epochs"]
    return replace(config, learning_rate=rate, epochs=epochs, max_steps=0)


def _for_imitation(config: TrainingConfig, rows: int, answers: AnswerTraits) -> dict[str, Any]:
    batch, passes = cut(config, _ROWS_A_STEP, 1, _ROWS_A_STEP)
    of_a_pass = math.ceil(math.ceil(rows / batch) / passes) if rows else 1
    steps = {
        "closed": max(_CLOSED_STEPS, _STEPS_AN_ANSWER * answers.distinct),
        "structured": _STRUCTURED_STEPS,
    }.get(answers.kind, LEAST_STEPS)
    least = {"closed": _CLOSED_PASSES, "structured": _STRUCTURED_PASSES}.get(answers.kind, 2)
    least = least if rows < _SEVERAL_PASSES_BELOW else 2
    epochs = max(least, math.ceil(steps / of_a_pass))
    return {
        "batch_size": batch,
        "gradient_accumulation": passes,
        "epochs": float(epochs if answers.kind != "free" else min(MOST_PASSES, epochs)),
        "lora_dropout": 0.0 if rows < _MANY_ROWS else _DROPOUT,
    }


def _size_for_imitation(config: TrainingConfig, rows: int, size: Size | None, answers: AnswerTraits) -> dict[str, Any]:
    if size is None:
        return {}
    chosen = _by_size(config, "sft", rows, size)
    layers = 0 if answers.kind == "structured" else chosen["train_layers"]
    rate = _imitation_rate(config, size.hidden_size, answers.kind)
    return {**chosen, "learning_rate": rate, "train_layers": layers}


def _imitation_rate(config: TrainingConfig, hidden_size: int, kind: str) -> float:
    return scale_rate(_FREE_RATE if kind == "free" else _RIGHT_RATE, config, hidden_size)


def _imitation_line(automatic: tuple[str, ...], answers: AnswerTraits) -> str:
    if "preferences" not in automatic or answers.kind == "free":
        return ""
    return f"answers are {answers.kind} ({answers.reason}): accepted ones are imitated, and preferences are left out"


def _by_rows(config: TrainingConfig, method: str, rows: int) -> dict[str, Any]:
    """Passes are counted by people's ratings: what a run adds to them takes further steps, and none of theirs."""
    rows_a_step = 4 if rows <= _FEW_ROWS else 8 if rows <= _SOME_ROWS else 16
    batch, passes = cut(config, rows_a_step, find_method(method).least_rows)
    of_a_pass = math.ceil(math.ceil(rows / batch) / passes) if rows else 1
    least = 2 if rows < _SEVERAL_PASSES_BELOW else 1
    return {
        "batch_size": batch,
        "gradient_accumulation": passes,
        "epochs": float(min(MOST_PASSES, max(least, math.ceil(LEAST_STEPS / of_a_pass)))),
        "lora_dropout": 0.0 if rows < _MANY_ROWS else _DROPOUT,
    }


def _by_size(config: TrainingConfig, method: str, rows: int, size: Size | None) -> dict[str, Any]:
    if size is None:
        return {}
    top = not config.full and size.layers >= _LAYERS_TO_CHOOSE_FROM and rows < _MANY_ROWS
    return {
        "learning_rate": scale_rate(_RATE * _FASTER.get(method, 1), config, size.hidden_size),
        "train_layers": max(_LEAST_LAYERS, round(size.layers / 3)) if top else 0,
    }


def _smoothing(config: DPOConfig, repeats: Repeats | None) -> float:
    if "robust" in config.losses and repeats and repeats.judgements >= LEAST_REPEATS:
        return repeats.flip_rate
    return config.usual_smoothing


def _numbers(config: TrainingConfig, rows: int, size: Size | None, automatic: tuple[str, ...]) -> str:
    """Such as "39 rows on a 135M model: 4 rows a step, 6 passes (60 steps), learning rate 2e-4, the top 10 of 30 layers"."""
    if not set(automatic) - {"label_smoothing", "preferences"}:
        return ""
    layers = f"the top {config.train_layers} of {size.layers} layers" if size and config.train_layers else "all layers"
    parts = {
        "batch_size": step_in_words(config),
        "epochs": f"{config.epochs:g} pass{'es' if config.epochs != 1 else ''} ({config.steps(rows):,} steps)",
        "learning_rate": f"learning rate {in_words(config.learning_rate)}",
        "train_layers": layers,
    }
    known = [words for name, words in parts.items() if name in automatic and (size or name not in OF_SIZE)]
    unknown = [name for name in OF_SIZE if name in automatic and size is None]
    if unknown:
        known.append(f"{' and '.join(unknown)} as usual, since the model's size is not known here")
    return f"{rows:,} rows on {_describe(size)}: {', '.join(known)}"


def in_words(rate: float) -> str:
    """2e-4, 5.8e-5."""
    digits, _, power = f"{rate:.1e}".partition("e")
    return f"{float(digits):g}e{int(power)}"


def _describe(size: Size | None) -> str:
    if size is None:
        return "a model of unknown size"
    millions = size.parameters / 1e6
    return f"a {millions / 1000:.1f}B model" if millions >= 1000 else f"a {millions:.3g}M model"


def describe_losses(config: DPOConfig) -> str:
    """``sigmoid``; ``robust with label_smoothing 0.1``; ``sigmoid and 0.2 of sft``."""
    parts = [name if weight == 1 else f"{weight:g} of {name}" for name, weight in config.losses.items()]
    smoothed = f" with label_smoothing {config.smoothing:.3g}" if config.smoothing else ""
    return " and ".join(parts) + smoothed


def _smoothing_line(config: TrainingConfig, repeats: Repeats | None, automatic: tuple[str, ...]) -> str:
    if not isinstance(config, DPOConfig) or "label_smoothing" not in automatic:
        return ""
    if not config.losses.keys() & set(SMOOTHED):
        return ""
    value = f"label_smoothing {config.label_smoothing:.3g}"
    if "robust" not in config.losses:
        return f"{value}, as usual for {config.preference_loss}"
    if repeats and repeats.judgements >= LEAST_REPEATS:
        return f"{value}, from {repeats.judgements:,} repeated ratings"
    return f"{value}, a guess: {repeats.judgements if repeats else 0} repeated ratings, and {LEAST_REPEATS} would measure it"
