"""How a question is put and an answer is written, where records hold a choice and no text: which widgets, which variant.

What a model learns is what it is asked later, so an agent may have the templates of the application that asks it:
Ratchet's own are ``plain``, other systems bring theirs when the app starts, and the operator writes more in files.

Imports: base."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from rl.base.leaves import import_name
from rl.base.records import Message
from rl.data_formatter.wording.contract import SIZES, Ask, Picked, Wording, data_lines, entities, fixture_lines, names


class PlainPrompts:
    """What is the same for every question comes first, so that prompts share a prefix, in training as in serving."""

    def ask_for_widgets(self, ask: Ask) -> str:
        return "\n".join(
            (
                "Select the dashboard widgets that answer the query best. Answer with their names and sizes, the largest "
                "first, as in: name (size), name (size).",
                f"Widgets: {', '.join(sorted(set(ask.scenarios)))}",
                f"Sizes: {', '.join(SIZES)}",
                *_query_lines(ask),
            )
        )

    def ask_for_fixture(self, ask: Ask) -> str:
        return "\n".join(
            (
                "Select the variant that shows the widget best for the query. Answer with its name only.",
                f"Widget: {ask.widget.scenario}",
                "Variants:",
                *fixture_lines(ask.fixtures),
                *_query_lines(ask),
            )
        )


class PlainAnswers:
    def write_widgets(self, picked: Sequence[Picked], ask: Ask) -> str:  # noqa: ARG002  as others of its kind
        return ", ".join(f"{widget.scenario} ({widget.size})" for widget in picked)

    def write_fixture(self, name: str, ask: Ask) -> str:  # noqa: ARG002  as others of its kind
        return name


def _query_lines(ask: Ask) -> Iterator[str]:
    yield f"Query: {ask.widget.question}"
    if domains := names(ask.widget.intent.get("domains")):
        yield f"Domains: {domains}"
    for kind, listed in entities(ask.widget.intent).items():
        yield f"Entities, {kind}: {listed}"
    yield from (f"Data: {line}" for line in data_lines(ask.data))


PROMPTS, ANSWERS = PlainPrompts(), PlainAnswers()

PROMPT_TEMPLATES: dict[str, str] = {"plain": "rl.data_formatter.wording.PROMPTS"}
"""Name to the dotted path of a PromptTemplate."""
ANSWER_TEMPLATES: dict[str, str] = {"plain": "rl.data_formatter.wording.ANSWERS"}
"""Name to the dotted path of an AnswerTemplate."""
PLAIN = Wording(PROMPTS, ANSWERS)

DecisionPrompt = Callable[[Mapping[str, Any], str], list[Message] | None]
"""From a state and the agent's own system text, which may be empty; None for a state of another shape."""
DECISION_PROMPTS: dict[str, str] = {}
"""Type of agent, in capitals, to the dotted path of a DecisionPrompt. ``rl.from_systems`` adds some when the app starts."""


def ask_for_decision(agent_type: str, prompt: Sequence[Message], system: str = "") -> tuple[Message, ...]:
    """``prompt`` in the words of its type, where it is one user message with a state that the type knows; else as it is."""
    path = DECISION_PROMPTS.get(agent_type.upper())
    if path is None or len(prompt) != 1 or prompt[0]["role"] != "user":
        return tuple(prompt)
    try:
        state = json.loads(prompt[0]["content"])
    except (ValueError, RecursionError):
        return tuple(prompt)
    template: DecisionPrompt = import_name(path)
    asked = template(state, system) if isinstance(state, Mapping) else None
    return tuple(asked or prompt)
