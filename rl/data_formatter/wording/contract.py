"""What a template is given, and what it has to do."""

import json
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


DATA_CHARACTERS = 300
"""Most characters of each widget's data."""
DATA_LINES = 4


def names(value: object) -> str:
    """A list of names, or one name; anything else is ignored."""
    if isinstance(value, str):
        return value
    return ", ".join(str(name) for name in value if isinstance(name, (str, int))) if isinstance(value, list) else ""


def entities(intent: Mapping[str, Any]) -> dict[str, str]:
    """Kind to the names of that kind, sorted; kinds without names are left out."""
    stated = intent.get("entities")
    listed = {kind: names(value) for kind, value in sorted(stated.items())} if isinstance(stated, Mapping) else {}
    return {kind: text for kind, text in listed.items() if text}


def data_lines(data: Sequence[Mapping[str, Any]]) -> list[str]:
    texts = (_describe(widget_data) for widget_data in data if widget_data)
    cut = {text if len(text) <= DATA_CHARACTERS else text[: DATA_CHARACTERS - 1] + "…" for text in texts}
    return sorted(cut)[:DATA_LINES]


def fixture_lines(fixtures: Mapping[str, str]) -> list[str]:
    return [f"- {name}: {text}" if text else f"- {name}" for name, text in sorted(fixtures.items())]


def shown_values(data: Mapping[str, Any]) -> Mapping[str, Any]:
    """What a widget shows; Command Center's gallery wraps it in "demoData"."""
    values = data.get("demoData", data)
    return values if isinstance(values, Mapping) else {}


def _describe(data: Mapping[str, Any]) -> str:
    """Label, unit and the values' names where there is a label, else JSON. The values differ from widget to widget."""
    values = data.get("demoData", data)
    if not isinstance(values, Mapping) or not isinstance(values.get("label"), str):
        return json.dumps(values, ensure_ascii=False, sort_keys=True)
    unit = f" ({values['unit']})" if values.get("unit") else ""
    return ", ".join([values["label"] + unit, *sorted(values.keys() - {"label", "unit"})])
