"""What an agent and its environment say to each other."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple


@dataclass(frozen=True, slots=True)
class ToolRequest:
    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Action:
    text: str
    """What it said beside its tool calls."""
    calls: tuple[ToolRequest, ...] = ()
    """Without any, what it said is its answer."""
    error: str = ""
    """Why its tool calls cannot be read; the agent is told, and may try again."""


class Step(NamedTuple):
    observation: str
    """What the agent reads next; empty at the end."""
    reward: float
    """The reward of this step alone."""
    done: bool
    info: dict[str, Any]
    """JSON: ``turn``, ``tool_calls``, at the end ``success`` and ``reason``, and what the environment adds."""
    observations: tuple[str, ...] = ()
    """The same as messages, a tool's message for each call of the turn; empty: the observation is the only one."""

    @property
    def messages(self) -> tuple[str, ...]:
        return self.observations or (self.observation,)


@dataclass(frozen=True, slots=True)
class Judgement:
    success: bool
    reason: str
    """One sentence for people."""
    timed_out: bool = False
    details: Mapping[str, Any] = field(default_factory=dict)
