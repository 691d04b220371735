"""OpenAI's chat format for fine-tuning: ``messages``, and ``tools`` where tools were called."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

from rl.base.records import JudgedAnswer, ToolCall
from rl.dataset_builder.exporting.base import Column
from rl.dataset_builder.exporting.imitated import ImitatedRows


class OpenAI(ImitatedRows):
    columns: ClassVar[dict[str, Column]] = {"messages": "chat", "tools": "json"}

    def _values(self, answer: JudgedAnswer, text: str) -> dict[str, Any]:
        messages = [*answer.prompt, *_steps(answer.tool_calls), {"role": "assistant", "content": text}]
        return {"messages": messages, **({"tools": _tools(answer.tool_calls)} if answer.tool_calls else {})}


def arguments_text(call: ToolCall) -> str:
    """JSON: of a call without arguments an empty object; what came as JSON text of an object stays as it is."""
    given = {} if call.arguments is None else call.arguments
    return given if isinstance(given, str) and _is_object(given) else json.dumps(given, ensure_ascii=False)


def result_text(call: ToolCall) -> str:
    """What the tool said; its error where it failed."""
    result = call.error if call.error and not call.success else call.result
    return result if isinstance(result, str) else json.dumps(result, ensure_ascii=False)


def _is_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False


def _steps(calls: Sequence[ToolCall]) -> Iterator[dict[str, Any]]:
    """One message that calls and one that answers for each call, in their order."""
    for number, call in enumerate(calls, 1):
        called = {"name": call.tool_name, "arguments": arguments_text(call)}
        identifier = f"call_{number}"
        yield {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": identifier, "type": "function", "function": called}],
        }
        yield {"role": "tool", "tool_call_id": identifier, "content": result_text(call)}


def _tools(calls: Sequence[ToolCall]) -> list[dict[str, Any]]:
    """What is known of them: their names, and the arguments that they were called with."""
    properties: dict[str, dict[str, Any]] = {}
    for call in calls:
        given = json.loads(arguments_text(call))
        given = given if isinstance(given, dict) else {}
        properties.setdefault(call.tool_name, {}).update({name: {} for name in given})
    return [
        {"type": "function", "function": {"name": name, "parameters": {"type": "object", "properties": arguments}}}
        for name, arguments in properties.items()
    ]
