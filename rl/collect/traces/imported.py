"""What every way in yields: one answer as another system knows it, ready to be stored by ``rl.collect.traces.write``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from rl.base.records import Message, ReasoningStep, TaskEvent, ToolCall


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedFeedback:
    """One thing that somebody said. The fields that its ``kind`` does not use stay empty."""

    kind: Literal["rating", "comparison", "correction", "outcome"]
    rater: str
    """``user:…`` a person, ``device:…`` a browser, ``system:…`` a program."""
    scale: Literal["thumb", "stars", "score", ""] = ""
    value: float | None = None
    """A rating, on its scale; or the number observed as an outcome."""
    choice: Literal["left", "right", "tie", "both_bad", ""] = ""
    """What a comparison chose; left is the trace that carries this feedback."""
    other_external_id: str = ""
    """The right trace of a comparison, which was yielded earlier or is stored already."""
    text: str = ""
    """The corrected answer of a correction."""
    metric: str = ""
    """The name of what an outcome measured."""
    tags: tuple[str, ...] = ()
    notes: str = ""
    rated_at: datetime | None = None
    """When it was said, in UTC; None: as old as its answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedTrace:
    where: str
    """As a person finds it in the file: ``line 12``, ``entry e00001``."""
    external_id: str
    """The same answer always has the same one, so that a second import finds it. At most 200 characters."""
    prompt: tuple[Message, ...]
    response: str
    agent: str = ""
    """Empty: the agent that the person named."""
    prompt_key: str = ""
    """Empty: the hash of the prompt's messages."""
    session_id: str = ""
    model_version: str = ""
    """A version's name; one that Ratchet does not know is kept in the details."""
    tool_calls: tuple[ToolCall, ...] = ()
    reasoning_steps: tuple[ReasoningStep, ...] = ()
    tasks: tuple[TaskEvent, ...] = ()
    state: Any = None
    action: Any = None
    tokens_in: int | None = None
    tokens_out: int | None = None
    llm_calls: int | None = None
    cost: float | None = None
    duration_ms: int | None = None
    details: Mapping[str, Any] = field(default_factory=dict)
    occurred_at: datetime | None = None
    """In UTC; None: not known."""
    feedback: tuple[ImportedFeedback, ...] = ()
    columns: Mapping[str, str] = field(default_factory=dict, repr=False, compare=False)
    """What became of each column of the record that it came from; of several answers of one record the last has them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedRemark:
    """Feedback on an answer that is here already, from a file that holds no answers."""

    where: str
    external_ids: tuple[str, ...]
    """External ids that the answer may have; the first that is here counts."""
    feedback: tuple[ImportedFeedback, ...]
    agent: str = ""
    """Empty: the agent that the person named."""
    columns: Mapping[str, str] = field(default_factory=dict, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class Rejected:
    where: str
    reason: str
