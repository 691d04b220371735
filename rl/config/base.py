"""Hyper-parameters that every method has. Overrides make a new configuration; unknown names and impossible values raise."""

import math
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, ClassVar, Self

from rl.base.errors import UsageError
from rl.base.manner import PLACES, QUESTION, Manner, check_instruction
from rl.base.names import unknown_name
from rl.config.fields import integers_of, ranges_of, within

FULL_LEARNING_RATE = 0.1
"""The learning rate where all weights are trained, as a fraction of an adapter's."""


def check_numbers(record: Any) -> None:
    """Raises UsageError for a number that is out of bounds, or not whole where it must be."""
    integers = integers_of(type(record))
    for name, (low, high) in ranges_of(type(record)).items():
        value = getattr(record, name)
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not low <= value <= high:
            raise UsageError(f"{name} must be a number from {low:g} to {high:g}, not {value!r}")
        if name in integers and int(value) != value:
            raise UsageError(f"{name} must be a whole number, not {value!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingConfig:
    """One training run. The defaults suit LoRA on a 1-3B instruct model. Methods with hyper-parameters of their own
    have a subclass (rl/config/methods.py)."""

    CHOICES: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "precision": ("auto", "fp32", "bf16"),
        "quantize_base": ("none", "auto", "4bit"),
        "instruction_place": PLACES,
    }
    PATTERNS: ClassVar[Mapping[str, str]] = {}
    """What a field's text must match."""
    LISTS: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "automatic": ("epochs", "batch_size", "gradient_accumulation", "learning_rate", "train_layers", "lora_dropout")
    }
    """What a field with several words may name."""
    OF_PRESETS: ClassVar[Mapping[str, str]] = {}
    """What a preset's names mean here, where they mean something else; empty: nothing."""
    MOST_KL: ClassVar[float] = 1000.0
    """Divergence from the base model at which a run is stopped, in nats an answer. A good adapter moves some ten; at a
    thousand the base model would not write one such answer in e^1000, and every further step only leads away."""

    automatic: tuple[str, ...] = ()
    """Hyper-parameters that are chosen when the rows and the model are known (rl/config/automatic.py); until then they have
    the method's defaults."""
    epochs: float = within(0.01, 1000, 3.0)
    """Passes over the training rows."""
    max_steps: int = within(0, 10_000_000, 0)
    """Optimiser steps; 0: as many as ``epochs`` comes to."""
    full: bool = False
    """Train all weights instead of an adapter."""
    sft_epochs: float = within(-1, 1000, 0.0)
    """Passes of imitation over the good answers before the method itself; 0: none; -1: as many as train_sft would choose."""
    sft_learning_rate: float = within(0, 1.0, 0.0)
    """Peak rate of that imitation; 0: what train_sft would choose."""
    batch_size: int = within(1, 1024, 4)
    """Preference pairs (or rows) per forward pass."""
    gradient_accumulation: int = within(1, 1024, 4)
    """Forward passes per optimiser step."""
    learning_rate: float = within(1e-9, 1.0, 5e-5)
    """Peak of the cosine schedule."""
    learning_rate_multiplier: float = within(0.001, 1000, 1.0)
    """By which a learning rate that is chosen is multiplied."""
    warmup_ratio: float = within(0, 1, 0.1)
    """Share of the steps over which the learning rate rises from 0."""
    beta: float = within(0, 100, 0.1)
    """DPO's inverse temperature: larger stays nearer to the base model."""
    train_layers: int = within(0, 1000, 0)
    """Layers, counted from the top, that get an adapter; 0: all. What the layers below give is computed once a text."""
    lora_r: int = within(1, 1024, 16)
    """Rank of the adapter."""
    lora_alpha: int = within(1, 8192, 32)
    """Adapter scale; the update is multiplied by alpha / r."""
    lora_dropout: float = within(0, 0.99, 0.05)
    """Probability, 0 to 1."""
    max_length: int = within(16, 1_000_000, 1024)
    """Tokens of prompt plus answer; longer answers are cut, longer prompts are left out and counted."""
    max_grad_norm: float = within(0, 1e6, 1.0)
    """Gradient clipping, L2."""
    most_kl: float = within(0, 1000, 1000.0)
    """Nats a token between the answers of a trained adapter and those of the base model at which DPO, KTO, MPO and SFT stop
    and keep the weights of before, as where answers break; 0: nobody looks."""
    thinks: bool = False
    """The model thinks before it answers, where its chat template has a switch for that, in training as when it is measured
    and served; what the rows say of thoughts is learned. Models without a switch go on as they are."""
    instruction: str = ""
    """What the model is told with every question, in training as when it is measured and served; by default what the version
    in use is told. What is learned under it holds under it alone."""
    instruction_place: str = QUESTION
    """question: behind the last question; system: at the end of the system prompt."""
    precision: str = "auto"
    """auto, fp32, or bf16. Auto is bf16 on a GPU that has it, fp32 on a CPU."""
    quantize_base: str = "none"
    """none; 4bit: the frozen weights in 4 bits, by bitsandbytes on an NVIDIA GPU; auto: in 4 bits where that works."""
    activation_checkpointing: bool = False
    """Trade time for memory."""
    fast: bool = True
    """Compute what rows of a pass have in common once."""
    save_steps: int = within(1, 1_000_000, 50)
    """Optimiser steps between checkpoints."""
    seed: int = within(0, 2**32 - 1, 42)
    """Random seed of the weights' initialisation, the shuffling and the dropout."""

    def __post_init__(self) -> None:
        check_numbers(self)
        for name, known in self.CHOICES.items():
            if getattr(self, name) not in known:
                raise UsageError(f"{name} must be {', '.join(known[:-1])} or {known[-1]}, not {getattr(self, name)!r}")
        for name, pattern in self.PATTERNS.items():
            if not re.fullmatch(pattern, str(getattr(self, name))):
                raise UsageError(f"{name} must look like {pattern}, not {getattr(self, name)!r:.50}")
        if not isinstance(self.automatic, (list, tuple)):
            raise UsageError(f"automatic must be a list of hyper-parameters, not {self.automatic!r}")
        if unknown := [name for name in self.automatic if name not in self.LISTS["automatic"]]:
            raise UsageError(f"automatic: {unknown_name('hyper-parameter', str(unknown[0]), self.LISTS['automatic'])}")
        object.__setattr__(self, "automatic", tuple(self.automatic))
        check_instruction(self.instruction)
        for own in fields(self):
            if isinstance(own.default, bool) and not isinstance(value := getattr(self, own.name), bool):
                raise UsageError(f"{own.name} must be true or false, not {value!r}")
        if self.full and self.train_layers:
            raise UsageError("full trains every layer: leave out full, or train_layers")
        if self.full and self.quantize_base == "4bit":
            raise UsageError("weights in 4 bits cannot be trained: leave out full, or quantize_base 4bit")

    def with_overrides(self, overrides: Mapping[str, Any]) -> Self:
        """A copy with some values replaced; None means 'not given'. A value that is given is not chosen any more. All
        weights at once want smaller steps than an adapter: where ``full`` is turned on and no learning rate is given
        with it, a tenth of the learning rate remains. Raises UsageError for a name that is not a hyper-parameter."""
        known = {own.name for own in fields(self)}
        if unknown := sorted(set(overrides) - known):
            raise UsageError(unknown_name("hyper-parameter", unknown[0], sorted(known)))
        values = {name: value for name, value in overrides.items() if value is not None}
        values = {"automatic": tuple(name for name in self.automatic if name not in values), **values}
        if values.get("full") is True and not self.full:
            values = {"learning_rate": self.learning_rate * FULL_LEARNING_RATE, **values}
        return replace(self, **values)

    @property
    def manner(self) -> Manner:
        return Manner(self.thinks, self.instruction, self.instruction_place)

    def with_manner(self, manner: Manner) -> Self:
        return replace(
            self, thinks=manner.thinks, instruction=manner.instruction, instruction_place=manner.instruction_place
        )

    @property
    def quantization(self) -> str:
        """``quantize_base``; weights that are trained are not quantised."""
        return "none" if self.full else self.quantize_base

    @property
    def rows_a_pass(self) -> int:
        """Rows in one forward and backward pass."""
        return int(self.batch_size)

    @property
    def rows_a_step(self) -> int:
        """Rows that one step of the run is made of."""
        return int(self.batch_size * self.gradient_accumulation)

    def rows_learned(self, rows: int) -> int:
        """Those of people, and about how many the method adds."""
        return rows

    def steps(self, rows: int) -> int:
        """Optimiser steps of a run over so many rows."""
        passes = math.ceil(self.rows_learned(rows) / self.batch_size)
        of_epochs = math.ceil(self.epochs * math.ceil(passes / self.gradient_accumulation))
        return int(self.max_steps) if self.max_steps and rows else of_epochs

    def with_smaller_passes(self, least_rows: int = 1) -> Self | None:
        """The same rows a step, in passes of at most half as many; None where that would be fewer than ``least_rows``."""
        for rows in range(self.rows_a_pass // 2, least_rows - 1, -1):
            if self.rows_a_step % rows == 0:
                return replace(self, batch_size=rows, gradient_accumulation=self.rows_a_step // rows)
        return None

    def as_dict(self) -> dict[str, Any]:
        return asdict(self) | {"automatic": list(self.automatic)}
