"""What a template is given, and what it has to do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from rl.base.records import Message, WidgetChoice

SIZES = ("hero", "expanded", "normal", "compact")
"""Sizes of a widget, the largest first."""
Prompt = str | list[Message]
"""Text stands for one user message."""


@dataclass(frozen=True, slots=True)
class Ask:
    """What is to be answered."""

    widget: WidgetChoice
    """An entry of the question: all have the same question and intent. The variant of its scenario is asked for."""
    scenarios: Sequence[str] = ()
    """What may be chosen, where widgets are asked for."""
    fixtures: Mapping[str, str] = field(default_factory=dict)
    """Name to description, which may be empty, of the variants that may be chosen."""
    data: Sequence[Mapping[str, Any]] = ()
    """What the widgets would show."""


class Picked(NamedTuple):
    """One widget of an answer."""

    scenario: str
    size: str
    widget: WidgetChoice
    """An entry that showed it."""


class PromptTemplate(Protocol):
    def ask_for_widgets(self, ask: Ask) -> Prompt: ...

    def ask_for_fixture(self, ask: Ask) -> Prompt: ...


class AnswerTemplate(Protocol):
    """Two choices must never give one text."""

    def write_widgets(self, picked: Sequence[Picked], ask: Ask) -> str:
        """``picked``: the largest first."""
        ...

    def write_fixture(self, name: str, ask: Ask) -> str: ...


class Wording(NamedTuple):
    prompts: PromptTemplate
    answers: AnswerTemplate
