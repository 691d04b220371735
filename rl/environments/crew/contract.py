"""What a crew is."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Self

from rl.base.errors import UsageError
from rl.base.records import Message, ToolCall
from rl.environments.contract import Action

BEAT_SECONDS = 0.5
"""Between two signs of life."""


@dataclass(frozen=True, slots=True)
class Opening:
    """How one episode begins."""

    messages: tuple[Message, ...] = ()
    tools: tuple[Mapping[str, Any], ...] = ()
    """Their schemas."""
    broken: str = ""
    """Why the episode could not begin, one sentence; then it is over."""

    @classmethod
    def of_document(cls, document: Mapping[str, Any]) -> Self:
        """Back from ``asdict`` and JSON, or only ``broken``."""
        return cls(tuple(document.get("messages", ())), tuple(document.get("tools", ())), document["broken"])


@dataclass(frozen=True, slots=True)
class Move:
    """What came of one action."""

    observation: str = ""
    done: bool = True
    calls: tuple[ToolCall, ...] = ()
    """Made in this turn."""
    info: Mapping[str, Any] = field(default_factory=dict)
    """JSON, of the step."""
    reward: float | None = None
    """The reward of the whole episode when it is done; None while it goes on, and where the world broke."""
    observations: tuple[str, ...] = ()
    """As a Step has them."""
    broken: str = ""
    """Why the world, not the agent, broke, one sentence; then the episode is over."""

    @classmethod
    def of_document(cls, document: Mapping[str, Any]) -> Self:
        """Back from ``asdict`` and JSON, or only ``broken``."""
        calls = tuple(ToolCall(**call) for call in document.get("calls", ()))
        return cls(**{**document, "calls": calls, "observations": tuple(document.get("observations", ()))})


class Crew(ABC):
    """Episodes side by side, each known by its index in the list that ``begin`` was given. Every episode ends with exactly
    one Opening or Move that is broken or done; one that breaks leaves the others alone."""

    def __init__(self, alive: Callable[[], None]) -> None:
        self._alive, self._beaten = alive, 0.0
        self._going: set[int] = set()

    def begin(self, tasks: Sequence[Mapping[str, Any]]) -> list[Opening]:
        """Ends whatever went on before. Raises UsageError where no environment can be made from the settings."""
        with self._closed_if_it_raises():
            openings = self._begin(tasks)
        self._going = {index for index, opening in enumerate(openings) if not opening.broken}
        return openings

    def act(self, actions: Mapping[int, Action]) -> dict[int, Move]:
        """In the order of ``actions``. Raises UsageError for an episode that is over."""
        if stray := sorted(set(actions) - self._going):
            raise UsageError(f"episode {stray[0]} is over, or never began")
        with self._closed_if_it_raises():
            moves = self._act(actions)
        self._going -= {index for index, move in moves.items() if move.done}
        return {index: moves[index] for index in actions}

    @abstractmethod
    def close(self) -> None:
        """Ends everything; may be called again."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @abstractmethod
    def _begin(self, tasks: Sequence[Mapping[str, Any]]) -> list[Opening]: ...

    @abstractmethod
    def _act(self, actions: Mapping[int, Action]) -> dict[int, Move]: ...

    def _beat(self) -> None:
        """Raises what ``alive`` raises."""
        if time.monotonic() - self._beaten >= BEAT_SECONDS:
            self._beaten = time.monotonic()
            self._alive()

    @contextmanager
    def _closed_if_it_raises(self) -> Iterator[None]:
        """What would be answered later could not be told from the answers to the next question."""
        try:
            yield
        except BaseException:
            self._going = set()
            self.close()
            raise
