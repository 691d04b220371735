"""Templates that are text with ``{{blanks}}``, as an operator writes them in a file or takes them from recorded prompts."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rl.base.errors import UsageError
from rl.base.names import require_known
from rl.base.records import Message
from rl.data_formatter.wording.contract import SIZES, Ask, Picked, data_lines, entities, fixture_lines, names

BLANK = re.compile(r"\{\{\s*([a-z_]+)(:json)?\s*\}\}")
Fill = Callable[[Ask], str]


def _intent(*keys: str) -> Fill:
    """The first that the intent has."""
    return lambda ask: next((names(ask.widget.intent[key]) for key in keys if ask.widget.intent.get(key)), "")


OF_QUESTION: Mapping[str, Fill] = {
    "question": lambda ask: ask.widget.question,
    "intent": _intent("type"),
    "domains": _intent("domains"),
    "entities": lambda ask: "; ".join(f"{kind}: {listed}" for kind, listed in entities(ask.widget.intent).items()),
    "primary": _intent("primary_characteristic"),
    "secondary": _intent("secondary_characteristics"),
    "data": lambda ask: "\n".join(data_lines(ask.data)),
    "sizes": lambda _: ", ".join(SIZES),
}
"""What may be filled in everywhere."""
OF_SELECTION: Mapping[str, Fill] = {
    **OF_QUESTION,
    "scenarios": lambda ask: ", ".join(sorted(set(ask.scenarios))),
    "scenario_lines": lambda ask: "\n".join(f"- {name}" for name in sorted(set(ask.scenarios))),
}
OF_FIXTURE: Mapping[str, Fill] = {
    **OF_QUESTION,
    "scenario": lambda ask: ask.widget.scenario,
    "fixtures": lambda ask: ", ".join(sorted(ask.fixtures)),
    "fixture_lines": lambda ask: "\n".join(fixture_lines(ask.fixtures)),
}
OF_WIDGET = ("scenario", "size", "number", "question", "entities", "domains")
"""What may be filled in for each widget of an answer; ``number`` counts from 0."""
OF_WIDGETS = ("widgets", "question")
OF_CHOICE = ("fixture", "scenario", "question")


@dataclass(frozen=True, slots=True)
class WrittenPrompts:
    """Raises UsageError for a blank that nothing can fill."""

    widgets: tuple[Message, ...] = ()
    fixture: tuple[Message, ...] = ()

    def __post_init__(self) -> None:
        for messages, known in ((self.widgets, OF_SELECTION), (self.fixture, OF_FIXTURE)):
            for message in messages:
                _check(message["content"], known)

    def ask_for_widgets(self, ask: Ask) -> list[Message]:
        return _fill_all("widgets", self.widgets, OF_SELECTION, ask)

    def ask_for_fixture(self, ask: Ask) -> list[Message]:
        return _fill_all("fixture", self.fixture, OF_FIXTURE, ask)


@dataclass(frozen=True, slots=True)
class WrittenAnswers:
    """Raises UsageError for a blank that nothing can fill, and where an answer would not say what was chosen."""

    widget: str = "{{scenario}} ({{size}})"
    between: str = ", "
    widgets: str = "{{widgets}}"
    fixture: str = "{{fixture}}"

    def __post_init__(self) -> None:
        wanted = {
            "widget": (OF_WIDGET, "scenario"),
            "widgets": (OF_WIDGETS, "widgets"),
            "fixture": (OF_CHOICE, "fixture"),
        }
        for name, (known, needed) in wanted.items():
            text = getattr(self, name)
            _check(text, dict.fromkeys(known), f"answer.{name}")
            if needed not in (blank[1] for blank in BLANK.finditer(text)):
                raise UsageError(f"answer.{name} must hold {{{{{needed}}}}}: else every answer is the same")

    def write_widgets(self, picked: Sequence[Picked], ask: Ask) -> str:
        about = {name: OF_QUESTION[name](ask) for name in ("question", "entities", "domains")}
        shown = [{**about, "scenario": widget.scenario, "size": widget.size} for widget in picked]
        parts = (_fill(self.widget, {**values, "number": str(number)}) for number, values in enumerate(shown))
        return _fill(self.widgets, {"widgets": self.between.join(parts), "question": ask.widget.question})

    def write_fixture(self, name: str, ask: Ask) -> str:
        about = {"scenario": ask.widget.scenario, "question": ask.widget.question}
        return _fill(self.fixture, {**about, "fixture": name})


def _fill_all(name: str, messages: Sequence[Message], known: Mapping[str, Fill], ask: Ask) -> list[Message]:
    if not messages:
        raise UsageError(f"the prompt template has no {name}: write one, or build pairs of the other type")
    used = {blank[1] for message in messages for blank in BLANK.finditer(message["content"])}
    values = {name: known[name](ask) for name in used}
    return [Message(role=message["role"], content=_fill(message["content"], values)) for message in messages]


def _fill(text: str, values: Mapping[str, str]) -> str:
    """In one pass: what is filled in is not searched again. With ``:json`` as a JSON string, with its quotes."""

    def value(blank: re.Match[str]) -> str:
        return json.dumps(values[blank[1]], ensure_ascii=False) if blank[2] else values[blank[1]]

    return BLANK.sub(value, text)


def _check(text: str, known: Mapping[str, Any], section: str = "") -> None:
    for blank in BLANK.finditer(text):
        require_known("blank", blank[1], known, section=section)
