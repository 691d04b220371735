"""Messages that a span of a model call carries on its events, as clients do that keep attributes small or are older."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from rl.collect.otlp.messages import as_value
from rl.collect.otlp.spans import SpanEvent

CONTENT: Final = (
    "gen_ai.input.messages",
    "gen_ai.output.messages",
    "gen_ai.system_instructions",
    "gen_ai.tool.definitions",
)
"""Attributes that hold texts."""
_DETAILS: Final = "gen_ai.client.inference.operation.details"
_WHOLE: Final = {"gen_ai.content.prompt": "gen_ai.prompt", "gen_ai.content.completion": "gen_ai.completion"}
"""Events of 2024, and the attribute that has their messages."""
_ONE: Final = re.compile(r"gen_ai\.(system|user|assistant|tool)\.message")
_CHOICE: Final = "gen_ai.choice"


def messages_on_events(events: Iterable[SpanEvent]) -> dict[str, Any]:
    """By the attribute of CONTENT in which they would stand on the span."""
    by_name: dict[str, Any] = {}
    given: list[Any] = []
    answers: list[Any] = []
    for event in events:
        if event.name == _DETAILS:
            by_name |= {name: event.attributes[name] for name in CONTENT if name in event.attributes}
        elif event.name in _WHOLE:
            messages = as_value(event.attributes.get(_WHOLE[event.name]))
            (given if event.name.endswith("prompt") else answers).extend(messages if isinstance(messages, list) else ())
        elif match := _ONE.fullmatch(event.name):
            given.append({"role": match[1], **_body(event)})
        elif event.name == _CHOICE:
            body = _body(event)
            message = as_value(body.get("message"))
            answers.append({"role": "assistant", **body, **(message if isinstance(message, Mapping) else {})})
    return {**({CONTENT[0]: given} if given else {}), **({CONTENT[1]: answers} if answers else {}), **by_name}


def _body(event: SpanEvent) -> Mapping[str, Any]:
    body = as_value(event.attributes.get("gen_ai.event.content"))
    return body if isinstance(body, Mapping) else event.attributes
