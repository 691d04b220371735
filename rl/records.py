"""Frozen records that cross layers: the database side makes them, the pure and the torch side read them (or the reverse)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypedDict

from rl.config import TrainingConfig


class Message(TypedDict):
    """One chat message; ``role`` is system, user, assistant or tool."""

    role: str
    content: str


# --- feedback in -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class WidgetChoice:
    """What a Command Center entry chose: the widget (scenario), how it is drawn (fixture) and at what size."""

    scenario: str
    fixture: str
    size: str
    question: str
    intent: dict[str, Any] = field(default_factory=dict)
    """``domains``: list of names, ``entities``: name to list of names; anything else is ignored."""
    data: dict[str, Any] = field(default_factory=dict)
    """The entry's ``data_override``."""


@dataclass(frozen=True, slots=True)
class RatedAnswer:
    """One answer with the count of its current ratings above (``up``) and below (``down``) the middle of their scale."""

    answer_id: str
    prompt_key: str
    """Groups answers to the same prompt; Command Center's ``question_id``."""
    prompt: tuple[Message, ...]
    response: str
    up: int
    down: int
    feedback_ids: tuple[int, ...] = ()
    widget: WidgetChoice | None = None

    @property
    def verdict(self) -> Literal["up", "down", "tie"]:
        return "up" if self.up > self.down else "down" if self.down > self.up else "tie"

    @property
    def confidence(self) -> float:
        """Share of the raters that agree with the verdict, 0.5 (a tie) to 1.0 (unanimous)."""
        return max(self.up, self.down) / (self.up + self.down)


@dataclass(frozen=True, slots=True)
class DirectPreference:
    """A preference that one person stated between two texts: a side-by-side pick or an edited answer."""

    prompt_key: str
    prompt: tuple[Message, ...]
    chosen: str
    rejected: str
    feedback_id: int


@dataclass(frozen=True, slots=True)
class PreferencePair:
    """One row for preference training. ``prompt`` is a list of chat messages, or text that stands for one user message."""

    prompt: str | list[Message]
    chosen: str
    rejected: str
    question_id: str
    scenario: str | None = None
    metadata: dict[str, Any] | None = None
    """``pair_type``, ``confidence`` (0.5-1.0) and ``feedback`` (ids), where known."""


# --- training ----------------------------------------------------------------------------------------------------------

Report = Callable[[str, dict[str, Any]], None]
"""``report(event, values)``: how long work tells of its progress. Events: ``stage`` {name}, ``step`` {step, total_steps,
metrics: {name: float}}, ``log`` {text}. It may raise ``Interrupted``."""


def silent(event: str, values: dict[str, Any]) -> None:
    """The report of a caller that does not listen."""


@dataclass(frozen=True, slots=True)
class TrainingJob:
    """All that a training method may know. Rows are JSON lines in TRL's conversational preference format:
    ``{"prompt": [messages], "chosen": [message], "rejected": [message], ...}``; other keys are ignored."""

    train_rows: Path
    base_model: str
    """A directory, or a hub id."""
    config: TrainingConfig
    output_dir: Path
    """``checkpoint-N/`` folders and the finished ``adapter/`` are written here, each by rename."""
    resume: bool = False
    """Go on from the newest complete checkpoint in ``output_dir``, if there is one."""


@dataclass(frozen=True, slots=True)
class TrainingResult:
    adapter_dir: Path
    steps: int
    final_loss: float
    """Mean training loss over the last tenth of the steps, all attempts together."""
    metrics: dict[str, float]
    """Last logged value of each metric, and ``trainable_parameters``, ``dropped_rows``."""
    seconds: float


# --- evaluation --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PairScore:
    """What one model thinks of one held-out pair: natural-log probabilities of whole answers, given the prompt."""

    prompt_key: str
    chosen_logp: float
    rejected_logp: float

    @property
    def margin(self) -> float:
        return self.chosen_logp - self.rejected_logp

    @property
    def correct(self) -> bool:
        return self.chosen_logp > self.rejected_logp


@dataclass(frozen=True, slots=True)
class Interval:
    """A point estimate with its confidence interval."""

    value: float
    low: float
    high: float


# --- export ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ExportJob:
    base_model: str
    adapter_dir: Path | None
    """None exports the base model itself."""
    output_dir: Path
    name: str
    """A slug; becomes file names and ``general.name``."""
    quantization: str = "f16"


@dataclass(frozen=True, slots=True)
class ExportResult:
    path: Path
    """The file, or the directory for formats that are directories."""
    quantization: str
    details: dict[str, Any] = field(default_factory=dict)
    """What a person should see: tensor types used, self-check figures, warnings."""
