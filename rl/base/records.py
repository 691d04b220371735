"""Frozen records that cross layers: the database side makes them, the pure and the torch side read them (or the reverse)."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, NamedTuple

from rl.base.messages import Message as Message
from rl.base.messages import last_question
from rl.base.training_result import TrainingResult as TrainingResult

# --- feedback in -------------------------------------------------------------------------------------------------------


class Vote(NamedTuple):
    """Whether somebody is for something: an answer, or a row of a training set."""

    rater: str
    """A pseudonym."""
    agrees: bool
    about: str = ""
    """``chosen`` or ``rejected``: a rating of that answer of a pair alone. Empty: of the whole."""


class AnswerRating(NamedTuple):
    feedback_id: int
    value: float
    """0 to 1."""
    rater: str = ""
    """A pseudonym; empty where nobody knows."""


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
    heading: str = ""
    """What stood above the dashboard."""


@dataclass(frozen=True, slots=True)
class RatedAnswer:
    """One answer with the count of its current ratings above (``up``) and below (``down``) the middle of their scale; where
    its raters are known well enough, as many ratings in the shares in which it is likely good and bad."""

    answer_id: str
    prompt_key: str
    """Groups answers to the same prompt; Command Center's ``question_id``."""
    prompt: tuple[Message, ...]
    response: str
    up: float
    down: float
    feedback_ids: tuple[int, ...] = ()
    widget: WidgetChoice | None = None
    trace_id: str = ""
    """Empty for an answer that is not stored."""
    votes: tuple[Vote, ...] = ()
    steps: tuple[Message, ...] = ()
    """What the agent did before its last words, here and below: its turns that call tools, and their results."""
    tools: tuple[Mapping[str, Any], ...] = ()
    """Schemas of the tools that it was offered."""
    is_broken_off: bool = False
    """It did not end by itself, here and below: it may be disliked, never imitated."""

    @property
    def verdict(self) -> Literal["up", "down", "tie"]:
        return "up" if self.up > self.down else "down" if self.down > self.up else "tie"

    @property
    def is_disputed(self) -> bool:
        if self.votes:
            return len({vote.agrees for vote in self.votes}) > 1
        return bool(self.up and self.down)

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
    chosen_trace: str = ""
    """The id of the answer that says so; empty for an edited text, and for answers that are not stored."""
    rejected_trace: str = ""
    rater: str = ""
    chosen_steps: tuple[Message, ...] = ()
    rejected_steps: tuple[Message, ...] = ()
    tools: tuple[Mapping[str, Any], ...] = ()
    weight: float = 1.0
    """How many people's word it counts as."""


@dataclass(frozen=True, slots=True)
class JudgedAnswer:
    """An answer with all that tells how good it is."""

    trace_ids: tuple[str, ...]
    """Ids of the stored answers that say this; at least one."""
    prompt_key: str
    split_key: str
    """The hash of the prompt's words, which decides whether it is held out."""
    prompt: tuple[Message, ...]
    response: str
    ratings: tuple[AnswerRating, ...] = ()
    """The current ones; a side-by-side pick "both bad" rates both answers 0."""
    in_reward: tuple[int, ...] = ()
    """Feedback ids of the ratings that the reward counts already: those of a decision."""
    outcomes: tuple[int, ...] = ()
    """Feedback ids."""
    preferences: tuple[int, ...] = ()
    """Feedback ids of the other side-by-side picks and of edited answers."""
    corrections: tuple[str, ...] = ()
    """The newest edited text of each stored answer that somebody edited."""
    proposed: tuple[bool, float] | None = None
    """A label that a model proposes, and its confidence, 0.5 to 1."""
    heard: tuple[bool, float] | None = None
    """As ``proposed``, by what its user wrote next."""
    reward: float | None = None
    """0 to 1."""
    steps: tuple[Message, ...] = ()
    tools: tuple[Mapping[str, Any], ...] = ()
    widget: WidgetChoice | None = None
    is_broken_off: bool = False


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
    chosen_steps: list[Message] | None = None
    rejected_steps: list[Message] | None = None
    tools: list[dict[str, Any]] | None = None


# --- what an agent did -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ToolCall:
    tool_name: str
    arguments: Any = None
    result: Any = None
    success: bool = True
    duration_ms: float | None = None
    error: str = ""
    timestamp: str = ""
    """ISO 8601; empty where it is not known."""


@dataclass(frozen=True, slots=True)
class ReasoningStep:
    content: str
    step_type: str = ""
    confidence: float | None = None
    """0 to 1."""
    insights: tuple[str, ...] = ()
    issues: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TaskEvent:
    """One thing that happened to a task; a task that ends has two events."""

    task_id: str
    status: Literal["created", "completed", "failed"]
    type: str = ""
    description: str = ""
    timestamp: str = ""
    result: Any = None
    error: str = ""


@dataclass(frozen=True, slots=True)
class FeedbackRecord:
    """One current feedback event; the fields that its ``kind`` does not use are empty."""

    kind: Literal["rating", "comparison", "correction", "outcome"]
    rater: str = ""
    value: float | None = None
    """A rating on 0 … 1."""
    choice: str = ""
    """What a comparison chose: left (this answer), right, tie, both_bad."""
    text: str = ""
    """The corrected answer of a correction."""
    metric: str = ""
    raw_value: float | None = None
    """The value of an outcome, on the scale of its metric."""
    tags: tuple[str, ...] = ()
    rated_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Happened:
    """Tells what happened while an answer was made, as far as it is known."""

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


@dataclass(frozen=True, slots=True)
class TraceRecord(Happened):
    """One answer and what happened while it was made: all that a reward may look at."""

    id: str
    agent: str
    prompt: tuple[Message, ...]
    response: str
    prompt_key: str = ""
    feedback: tuple[FeedbackRecord, ...] = ()
    """Current events, in the order of their arrival."""
    proposed: tuple[bool, float] | None = None
    """A label that a model proposes, and its confidence, 0.5 to 1."""

    @property
    def question(self) -> str:
        """The last user message."""
        return last_question(self.prompt)


# --- training ----------------------------------------------------------------------------------------------------------

Report = Callable[[str, dict[str, Any]], None]
"""``report(event, values)``: how long work tells of its progress. Events: ``stage`` {name}, ``step`` {step, total_steps,
metrics: {name: float}}, ``log`` {text}, ``episodes`` {episodes: those that ended, as documents}. It may raise
``Interrupted``."""


def silent(event: str, values: dict[str, Any]) -> None:
    """The report of a caller that does not listen."""


@dataclass(frozen=True, slots=True)
class AnswerScore:
    """What the rewards say about one answer."""

    value: float | None
    """0 to 1; None where nothing applies."""
    components: Mapping[str, float] = field(default_factory=dict)
    """Reward name to its value, of those that apply."""


Scorer = Callable[[TraceRecord], AnswerScore]
"""The rewards of an agent. Raises RewardFailed, which names the reward that breaks."""


@dataclass(frozen=True, slots=True)
class Choosing:
    """A closed set, among which answers are chosen."""

    values: tuple[str, ...]
    supports: Mapping[str, Mapping[str, float]]
    """By key of a prompt: what other questions that read like it say for each answer, in the scale of log probabilities."""
    by_model_alone: bool = False
    """Nothing is taken off what the base model thinks of an answer whatever is asked."""
    accepted: Mapping[str, str] = field(default_factory=dict)
    """By key of a prompt: the accepted answer."""


@dataclass(frozen=True, slots=True)
class GeneratedAnswer:
    text: str
    tokens_in: int
    """Tokens of the prompt."""
    tokens_out: int
