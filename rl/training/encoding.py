"""Training rows as token ids, in one way for all methods and for scoring.

The prompt is the conversation rendered with the opening of the assistant's turn; an answer is what the whole conversation
adds to it, its end-of-turn token included. That equals TRL's own preparation, except that TRL drops and cuts long rows
without a word: here both are counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from os.path import commonprefix
from pathlib import Path
from typing import Any

from jinja2 import TemplateError
from transformers import PreTrainedTokenizerBase

from rl.errors import TrainingFailed
from rl.records import Report

_BATCH = 256


PAIR = ("chosen", "rejected")
SINGLE = ("completion",)
EncodedRow = dict[str, Any]
"""Lists of token ids: ``prompt_ids``, and for each answer of the row its own (``chosen_ids`` and ``rejected_ids``, or
``completion_ids``); beside them the row's ``label`` where it has one."""


@dataclass(slots=True)
class LengthCount:
    """What ``max_length`` did to the rows that went by."""

    rows: int = 0
    dropped: int = 0
    """Their prompt leaves no room for an answer."""
    cut: int = 0
    """At least one answer of the row lost its end."""
    longest_prompt: int = 0
    longest_row: int = 0
    """Tokens of prompt and longest answer."""

    def fit(self, row: EncodedRow, max_length: int) -> EncodedRow | None:
        """The row with its answers cut to ``max_length``, or None if its prompt alone fills it."""
        prompt = len(row["prompt_ids"])
        answers = {name: ids for name, ids in row.items() if name.endswith("_ids") and name != "prompt_ids"}
        whole = prompt + max(map(len, answers.values()), default=0)
        self.rows += 1
        self.longest_prompt = max(self.longest_prompt, prompt)
        self.longest_row = max(self.longest_row, whole)
        if prompt >= max_length:
            self.dropped += 1
            return None
        self.cut += whole > max_length
        room = max_length - prompt
        return {**row, **{name: ids[:room] for name, ids in answers.items()}}


def count_rows(path: Path) -> int:
    with path.open("rb") as lines:
        return sum(1 for _ in lines)


def encode(
    tokenizer: PreTrainedTokenizerBase,
    rows: Iterable[Mapping[str, Any]],
    total: int,
    report: Report,
    answers: Sequence[str] = PAIR,
) -> Iterator[EncodedRow]:
    """Rows in the order given, unshortened. Raises TrainingFailed when the chat template refuses one.

    ``total``: how many they are, for the steps that are reported. ``answers``: the keys of a row's answers;
    there may be none.
    """
    remaining, done = iter(rows), 0
    while batch := list(islice(remaining, _BATCH)):
        prompts = _render(tokenizer, [row["prompt"] for row in batch], add_generation_prompt=True)
        whole = [_render(tokenizer, [[*row["prompt"], *row[name]] for row in batch]) for name in answers]
        for row, prompt, *chats in zip(batch, prompts, *whole, strict=True):
            # A few templates render the end of a prompt differently once an answer follows.
            start = len(commonprefix([prompt, *chats]))
            ids = {f"{name}_ids": chat[start:] for name, chat in zip(answers, chats, strict=True)}
            yield {"prompt_ids": prompt[:start], **ids, **({"label": row["label"]} if "label" in row else {})}
        done += len(batch)
        report("step", {"step": done, "total_steps": total, "metrics": {}})


def _render(
    tokenizer: PreTrainedTokenizerBase,
    chats: Sequence[Sequence[Mapping[str, str]]],
    add_generation_prompt: bool = False,
) -> list[list[int]]:
    try:
        encoded = tokenizer.apply_chat_template(chats, add_generation_prompt=add_generation_prompt, return_dict=True)
    except TemplateError as error:
        raise TrainingFailed(f"the base model's chat template refuses a conversation: {error}") from error
    ids: list[list[int]] = encoded["input_ids"]
    return ids
