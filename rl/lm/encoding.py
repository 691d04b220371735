"""Training rows as token ids, in one way for all methods and for scoring.

The prompt is the conversation rendered with the opening of the assistant's turn; an answer is what the whole conversation
adds to it, its end-of-turn token included. That equals TRL's own preparation, except that TRL drops and cuts long rows
without a word: here both are counted.

Rows with tools are runs: their calls are written as the model writes them itself (``rl.lm.chat``), and in the ids of an
answer the results of tools and the words of users are marked as not the model's own (``rl.lm.own_tokens``). TRL learns
these too.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from os.path import commonprefix
from pathlib import Path
from typing import Any

from transformers import PreTrainedTokenizerBase

from rl.base.errors import TrainingFailed
from rl.base.messages import characters, has_calls
from rl.base.records import Report
from rl.lm.chat.format import ChatFormat
from rl.lm.lengths import EncodedRow

_BATCH = 256
_BATCH_CHARACTERS = 2_000_000
_TEMPLATE = 64
"""Tokens by which an answer that follows may change the end of a prompt, at most."""
PAIR = ("chosen", "rejected")
SINGLE = ("completion",)


def count_rows(path: Path) -> int:
    with path.open("rb") as lines:
        return sum(1 for _ in lines)


def encode(
    tokenizer: PreTrainedTokenizerBase,
    rows: Iterable[Mapping[str, Any]],
    total: int,
    report: Report,
    answers: Sequence[str] = PAIR,
    most_tokens: int | None = None,
    kept: Sequence[str] = (),
) -> Iterator[EncodedRow]:
    """Rows in the order given, unshortened. Raises TrainingFailed when the chat template refuses one, and UsageError where
    it cannot write a run with tools.

    ``total``: how many they are, for the steps that are reported. ``answers``: the keys of a row's answers; there may be
    none, and a row may lack some. ``kept``: keys whose values go along. ``most_tokens``: answers to a prompt that
    is far longer than this are encoded without it, which is right but for the tokens of the template, so that a huge prompt
    is read once and not once for each answer.
    """
    done = 0
    for batch in _batches(rows, answers):
        longest = math.inf if most_tokens is None else most_tokens + _TEMPLATE
        without_tools = [row for row in batch if not _is_run(row, answers)]
        encoded = _encode_batch(tokenizer, without_tools, answers, longest, kept)
        yield from (
            _encode_run(tokenizer, row, answers, kept) if _is_run(row, answers) else next(encoded) for row in batch
        )
        done += len(batch)
        report("step", {"step": done, "total_steps": total, "metrics": {}})


def _batches(rows: Iterable[Mapping[str, Any]], answers: Sequence[str]) -> Iterator[list[Mapping[str, Any]]]:
    """Batches of 256 rows, or of fewer that are long: a tokenizer needs some hundred bytes a token while it works."""
    batch: list[Mapping[str, Any]] = []
    length = 0
    for row in rows:
        batch.append(row)
        prompt = characters(row["prompt"])
        length += prompt + sum(prompt + characters(row[name]) for name in answers if row.get(name))
        if len(batch) == _BATCH or length >= _BATCH_CHARACTERS:
            yield batch
            batch, length = [], 0
    if batch:
        yield batch


def _is_run(row: Mapping[str, Any], answers: Sequence[str]) -> bool:
    return bool(row.get("tools")) or any(has_calls(row.get(name) or ()) for name in ("prompt", *answers))


def _encode_run(
    tokenizer: PreTrainedTokenizerBase, row: Mapping[str, Any], answers: Sequence[str], kept: Sequence[str]
) -> EncodedRow:
    chat = _chat_format(tokenizer)
    ids = {f"{name}_ids": chat.answer_ids(row[name]) for name in answers if row.get(name)}
    prompt = chat.prompt_ids(row["prompt"], row.get("tools") or ())
    return {"prompt_ids": prompt, **ids, **{name: row[name] for name in kept if name in row}}


def answer_text(tokenizer: PreTrainedTokenizerBase, row: Mapping[str, Any], ids: Sequence[int]) -> str:
    """What was generated after the prompt of the row; after one with tools, with the calls as the model writes them."""
    if _is_run(row, ()):
        return _chat_format(tokenizer).turn_text(ids)
    text: str = tokenizer.decode(ids, skip_special_tokens=True)
    return text


def calls_tools(tokenizer: PreTrainedTokenizerBase, row: Mapping[str, Any], ids: Sequence[int]) -> bool:
    """Whether what was generated after the prompt of the row waits for the results of tools."""
    return _is_run(row, ()) and bool(_chat_format(tokenizer).action(ids, row.get("tools") or ()).calls)


@lru_cache(maxsize=2)
def _chat_format(tokenizer: PreTrainedTokenizerBase) -> ChatFormat:
    """Finding out how a model writes calls takes longer than a row."""
    return ChatFormat(tokenizer)


def _encode_batch(
    tokenizer: PreTrainedTokenizerBase,
    batch: Sequence[Mapping[str, Any]],
    answers: Sequence[str],
    longest: float,
    kept: Sequence[str],
) -> Iterator[EncodedRow]:
    """``longest``: tokens of a prompt that is read again with each answer."""
    # prompts alone, each with the opening of the assistant's turn
    prompts = _render(tokenizer, [row["prompt"] for row in batch], add_generation_prompt=True)
    # whole conversations, one for each answer that is there: an answer is what a conversation has more than its prompt
    short = [row for row, prompt in zip(batch, prompts, strict=True) if len(prompt) <= longest]
    conversations = {
        name: iter(_render(tokenizer, [[*row["prompt"], *row[name]] for row in short if row.get(name)]))
        for name in answers
    }
    for row, prompt in zip(batch, prompts, strict=True):
        own = [name for name in answers if row.get(name)]
        if len(prompt) > longest:
            # a huge prompt is not read again: its answers are tokenised without the template around them
            start, answer_ids = len(prompt), [_alone(tokenizer, row[name]) for name in own]
        else:
            chats = [next(conversations[name]) for name in own]
            # A few templates render the end of a prompt differently once an answer follows.
            start = len(commonprefix([prompt, *chats]))
            answer_ids = [chat[start:] for chat in chats]
        ids = {f"{name}_ids": answer for name, answer in zip(own, answer_ids, strict=True)}
        yield {"prompt_ids": prompt[:start], **ids, **{name: row[name] for name in kept if name in row}}


def _alone(tokenizer: PreTrainedTokenizerBase, answer: Sequence[Mapping[str, str]]) -> list[int]:
    ids: list[int] = tokenizer("\n".join(message["content"] for message in answer), add_special_tokens=False)[
        "input_ids"
    ]
    return ids


def _render(
    tokenizer: PreTrainedTokenizerBase,
    chats: Sequence[Sequence[Mapping[str, str]]],
    add_generation_prompt: bool = False,
) -> list[list[int]]:
    if not chats:
        return []
    try:
        encoded = tokenizer.apply_chat_template(chats, add_generation_prompt=add_generation_prompt, return_dict=True)
    except Exception as error:  # a template is a program of its own
        raise TrainingFailed(f"the base model's chat template refuses a conversation: {error}") from error
    ids: list[list[int]] = encoded["input_ids"]
    return ids
