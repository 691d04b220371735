"""ShareGPT's conversations, with tool calls in the turns ``function_call`` and ``observation``."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from rl.base.messages import requested_calls
from rl.base.records import JudgedAnswer
from rl.data_formatter.runs import answer_messages, prompt_messages, tools_column
from rl.dataset_builder.exporting.base import Column
from rl.dataset_builder.exporting.imitated import ImitatedRows

SPEAKERS = {"system": "system", "user": "human", "assistant": "gpt", "tool": "observation"}


class ShareGPT(ImitatedRows):
    columns: ClassVar[dict[str, Column]] = {"conversations": "turns", "tools": "json"}

    def _values(self, answer: JudgedAnswer, text: str) -> dict[str, Any]:
        run = [*prompt_messages(answer.prompt), *answer_messages(text, answer.steps)]
        return {"conversations": [turn for message in run for turn in _turns(message)], **tools_column(answer.tools)}


def _turns(message: Mapping[str, Any]) -> Iterator[dict[str, str]]:
    calls = [{"name": call.name, "arguments": call.arguments} for call in requested_calls(message)]
    if message["content"] or not calls:
        yield {"from": SPEAKERS[message["role"]], "value": message["content"]}
    if calls:
        yield {"from": "function_call", "value": json.dumps(calls[0] if len(calls) == 1 else calls, ensure_ascii=False)}
