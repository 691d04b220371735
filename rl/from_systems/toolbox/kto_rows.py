"""KTO's rows as ToolBoxV2 writes them: the prompt is one text, ``System\n\nUser: query``, and so is the answer."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import ClassVar

from rl.base.records import Message
from rl.dataset_builder.exporting import Column, ExportedRow
from rl.dataset_builder.exporting.method_rows import KTO


class KTOText(KTO):
    columns: ClassVar[dict[str, Column]] = {"prompt": "text", "completion": "text", "label": "true or false"}

    def rows(self) -> Iterator[ExportedRow]:
        for row in super().rows():
            last_words = row.values["completion"][-1]["content"]  # its files have no place for tool calls
            texts = {"prompt": text_of(row.values["prompt"]), "completion": last_words}
            yield replace(row, values={**row.values, **texts})


def text_of(messages: Sequence[Message]) -> str:
    """Earlier questions and answers stand before the last one, each with who said it."""
    names = {"user": "User: ", "assistant": "Assistant: "}
    return "\n\n".join(f"{names.get(message['role'], '')}{message['content']}" for message in messages)
