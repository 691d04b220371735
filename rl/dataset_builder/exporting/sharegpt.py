"""ShareGPT's conversations, with tool calls in the turns ``function_call`` and ``observation``."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, ClassVar

from rl.base.records import JudgedAnswer, ToolCall
from rl.dataset_builder.exporting.base import Column
from rl.dataset_builder.exporting.imitated import ImitatedRows
from rl.dataset_builder.exporting.openai import arguments_text, result_text

SPEAKERS = {"system": "system", "user": "human", "assistant": "gpt", "tool": "observation"}


class ShareGPT(ImitatedRows):
    columns: ClassVar[dict[str, Column]] = {"conversations": "turns"}

    def _values(self, answer: JudgedAnswer, text: str) -> dict[str, Any]:
        asked = [{"from": SPEAKERS[message["role"]], "value": message["content"]} for message in answer.prompt]
        called = [turn for call in answer.tool_calls for turn in _turns(call)]
        return {"conversations": [*asked, *called, {"from": "gpt", "value": text}]}


def _turns(call: ToolCall) -> Iterator[dict[str, str]]:
    called = {"name": call.tool_name, "arguments": json.loads(arguments_text(call))}
    yield {"from": "function_call", "value": json.dumps(called, ensure_ascii=False)}
    yield {"from": "observation", "value": result_text(call)}
