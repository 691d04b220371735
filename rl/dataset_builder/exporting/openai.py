"""OpenAI's chat format for fine-tuning: ``messages``, and ``tools`` where tools were called."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

from rl.dataset_builder.exporting.base import Column
from rl.dataset_builder.exporting.imitated import ImitatedRows
from rl.records import JudgedAnswer, ToolCall


class OpenAI(ImitatedRows):
    columns: ClassVar[dict[str, Column]] = {"messages": "chat", "tools": "json"}

    def _values(self, answer: JudgedAnswer, text: str) -> dict[str, Any]:
        messages = [*answer.prompt, *_steps(answer.tool_calls), {"role": "assistant", "content": text}]
        return {"messages": messages, **({"tools": _tools(answer.tool_calls)} if answer.tool_calls else {})}


def arguments_text(call: ToolCall) -> str:
    """A JSON object; of a call without arguments an empty one."""
    return json.dumps({} if call.arguments is None else call.arguments, ensure_ascii=False)


def result_text(call: ToolCall) -> str:
    """What the tool said; its error where it failed."""
    result = call.error if call.error and not call.success else call.result
    return result if isinstance(result, str) else json.dumps(result, ensure_ascii=False)


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
        given = call.arguments if isinstance(call.arguments, dict) else {}
        properties.setdefault(call.tool_name, {}).update({name: {} for name in given})
    return [
        {"type": "function", "function": {"name": name, "parameters": {"type": "object", "properties": arguments}}}
        for name, arguments in properties.items()
    ]
