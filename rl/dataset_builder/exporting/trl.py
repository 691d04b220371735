"""TRL's conversational prompt-completion format, which its SFTTrainer loads as it is. Tool calls are not in it."""

from __future__ import annotations

from typing import Any, ClassVar

from rl.base.records import JudgedAnswer
from rl.data_formatter.labelled import completion
from rl.dataset_builder.exporting.base import Column
from rl.dataset_builder.exporting.imitated import ImitatedRows


class TRL(ImitatedRows):
    columns: ClassVar[dict[str, Column]] = {"prompt": "messages", "completion": "messages"}

    def _values(self, answer: JudgedAnswer, text: str) -> dict[str, Any]:
        return {"prompt": list(answer.prompt), "completion": completion(text)}
