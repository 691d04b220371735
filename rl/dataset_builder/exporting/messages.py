"""Runs as messages with their tool calls, and ``tools`` where the agent has some: OpenAI's chat format for fine-tuning, and
TRL's conversational prompt-completion format, which its SFTTrainer loads as it is."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, ClassVar

from rl.base.messages import requested_calls
from rl.base.records import JudgedAnswer
from rl.data_formatter.runs import answer_messages, prompt_messages, tools_column
from rl.dataset_builder.exporting.base import Column
from rl.dataset_builder.exporting.imitated import ImitatedRows


class OpenAI(ImitatedRows):
    columns: ClassVar[dict[str, Column]] = {"messages": "messages", "tools": "json"}

    def _values(self, answer: JudgedAnswer, text: str) -> dict[str, Any]:
        run = [*prompt_messages(answer.prompt), *answer_messages(text, answer.steps)]
        return {"messages": [_as_openai(message) for message in run], **tools_column(answer.tools)}


class TRL(ImitatedRows):
    columns: ClassVar[dict[str, Column]] = {"prompt": "messages", "completion": "messages", "tools": "json"}

    def _values(self, answer: JudgedAnswer, text: str) -> dict[str, Any]:
        run = answer_messages(text, answer.steps)
        return {"prompt": prompt_messages(answer.prompt), "completion": run, **tools_column(answer.tools)}


def _as_openai(message: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments are JSON text there, a turn that only calls has no content, and a result no name."""
    written = {name: value for name, value in message.items() if name != "name"}
    if calls := requested_calls(message):
        written["content"] = message["content"] or None
        written["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": json.dumps(call.arguments, ensure_ascii=False)},
            }
            for call in calls
        ]
    return written
