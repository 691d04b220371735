"""TRL's conversational prompt-completion format, which its SFTTrainer loads as it is: runs with their tool calls, and
``tools`` where the agent has some."""

from __future__ import annotations

from typing import Any, ClassVar

from rl.base.records import JudgedAnswer
from rl.data_formatter.runs import answer_messages, prompt_messages, tools_column
from rl.dataset_builder.exporting.base import Column
from rl.dataset_builder.exporting.imitated import ImitatedRows


class TRL(ImitatedRows):
    columns: ClassVar[dict[str, Column]] = {"prompt": "messages", "completion": "messages", "tools": "json"}

    def _values(self, answer: JudgedAnswer, text: str) -> dict[str, Any]:
        run = answer_messages(text, answer.steps)
        return {"prompt": prompt_messages(answer.prompt), "completion": run, **tools_column(answer.tools)}
