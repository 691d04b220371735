"""What happened in one episode, from the task to the reward."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, Self

from rl.base.records import Message, ToolCall


@dataclass(frozen=True, slots=True)
class Turn:
    text: str
    """What it said, with its tool calls as its model writes them."""
    calls: tuple[ToolCall, ...] = ()
    observation: str = ""
    """What it read next; empty at the end."""
    tokens: int | None = None
    """How many tokens it said."""
    observations: tuple[str, ...] = ()
    """What each of several calls brought, a tool's message each; else empty, and ``observation`` is the message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlayedEpisode:
    task_id: str
    task: Mapping[str, Any]
    environment: str
    """A name of ENVIRONMENTS, or ``module:Class``."""
    prompt: tuple[Message, ...]
    turns: tuple[Turn, ...]
    reward: float | None
    """None where the world broke, and nothing can be said about the agent."""
    success: bool
    reason: str
    """Why it ended as it did, one sentence."""
    info: Mapping[str, Any] = field(default_factory=dict)
    """JSON, of the last step."""
    tokens_in: int | None = None
    """Tokens of the prompt."""
    seconds: float | None = None

    split: Literal["", "train", "eval"] = ""
    """Empty outside of training."""
    step: int = 0
    """Optimiser steps before it."""
    sample: int = 0
    """Its number among the episodes that were made of its task at this step."""

    @property
    def answer(self) -> str:
        """What it said last."""
        return self.turns[-1].text if self.turns else ""

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        return tuple(call for turn in self.turns for call in turn.calls)

    @property
    def messages(self) -> tuple[Message, ...]:
        """The whole chat; observations have the role "tool"."""
        messages = list(self.prompt)
        for turn in self.turns:
            messages.append(Message(role="assistant", content=turn.text))
            for observation in turn.observations or filter(None, [turn.observation]):
                messages.append(Message(role="tool", content=observation))
        return tuple(messages)

    def as_document(self) -> dict[str, Any]:
        """JSON."""
        return asdict(self)

    @classmethod
    def of_document(cls, document: Mapping[str, Any]) -> Self:
        """Back from ``as_document``."""
        turns = []
        for turn in document["turns"]:
            calls = tuple(ToolCall(**call) for call in turn["calls"])
            turns.append(Turn(**{**turn, "calls": calls, "observations": tuple(turn.get("observations") or ())}))
        return cls(**{**document, "prompt": tuple(document["prompt"]), "turns": tuple(turns)})
