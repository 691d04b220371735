"""Training rows as token ids, in one way for all methods and for scoring.

The prompt is what a server makes of the messages, token for token, with the opening of the assistant's turn; an answer is
what the model would then have to generate, up to and with the token that ends its turn (``rl.lm.chat.template``). TRL cuts a
rendered conversation where it parts from its prompt instead, learns what templates write behind the end of a turn too, and
drops and cuts long rows without a word: here both are counted, and so are chats that the template refuses.

Prompts are told what the version is told with every question (``rl.base.manner``), as the gateway tells it.

What was thought before an answer (``reasoning_content``) is learned with it where the tokenizer's model thinks, as the
template writes it, and left out where it does not.

Rows with tools are runs: their calls are written as the model writes them itself (``rl.lm.chat``), and in the ids of an
answer the results of tools and the words of users are marked as not the model's own (``rl.lm.own_tokens``). TRL learns
these too."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from transformers import PreTrainedTokenizerBase

from rl.base.messages import characters, has_calls
from rl.base.records import Report
from rl.lm.chat.format import ChatFormat
from rl.lm.chat.template import AnswerFrame, ChatRefused, answer_form
from rl.lm.lengths import EncodedRow
from rl.lm.reading import manner_of

_BATCH = 256
_BATCH_CHARACTERS = 2_000_000
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
    kept: Sequence[str] = (),
) -> Iterator[EncodedRow]:
    """Rows in the order given, unshortened; one that the chat template refuses has ``refused``, the reason, and no ids.
    Raises UsageError for a tokenizer without an end of text, or a template that cannot write runs with tools where a row is
    one. ``total``: how many they are, for the steps that are reported. ``answers``: the keys of a row's answers; there may
    be none, and a row may lack some. ``kept``: keys whose values go along."""
    done, manner = 0, manner_of(tokenizer)
    for batch in _batches(rows, answers):
        batch = [{**row, "prompt": manner.tell(row["prompt"])} for row in batch] if manner.instruction else batch
        plain = [row for row in batch if not _is_run(row, answers)]
        encoded = _encode_batch(tokenizer, plain, answers) if plain else iter(())
        for row in batch:
            ids = _encode_run(tokenizer, row, answers) if _is_run(row, answers) else next(encoded)
            yield {**ids, **{name: row[name] for name in kept if name in row}}
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
    """Also a conversation of several turns: the words of others are told apart in runs."""
    texts = [row[name] for name in answers if row.get(name)]
    has_turns = any(len(text) > 1 for text in texts)
    return bool(row.get("tools")) or has_turns or any(map(has_calls, (row["prompt"], *texts)))


def _encode_run(tokenizer: PreTrainedTokenizerBase, row: Mapping[str, Any], answers: Sequence[str]) -> EncodedRow:
    chat = _chat_format(tokenizer)
    dropped = chat.dropped_texts
    try:
        ids = {f"{name}_ids": chat.answer_ids(row[name]) for name in answers if row.get(name)}
        prompt = chat.prompt_ids(row["prompt"], row.get("tools") or ())
        lost = _flag_lost(answer_form(tokenizer), row, answers)
        return {"prompt_ids": prompt, **ids, "dropped_texts": chat.dropped_texts - dropped, **lost}
    except ChatRefused as refused:
        return {"refused": str(refused)}


def answer_text(tokenizer: PreTrainedTokenizerBase, row: Mapping[str, Any], ids: Sequence[int]) -> str:
    """What was generated after the prompt of the row, without what its template has before an answer; after one with tools,
    with the calls as the model writes them."""
    if _is_run(row, ()):
        return _chat_format(tokenizer).turn_text(answer_form(tokenizer).behind_thought(ids))
    return answer_words(tokenizer, ids)


def answer_words(tokenizer: PreTrainedTokenizerBase, ids: Sequence[int]) -> str:
    """The words of an answer without tools, without what was thought before them."""
    return answer_form(tokenizer).words(ids)


def calls_tools(tokenizer: PreTrainedTokenizerBase, row: Mapping[str, Any], ids: Sequence[int]) -> bool:
    """Whether what was generated after the prompt of the row waits for the results of tools."""
    if not _is_run(row, ()):
        return False
    action = _chat_format(tokenizer).action(ids, row.get("tools") or ())
    return bool(action.calls or action.error)


@lru_cache(maxsize=2)
def _chat_format(tokenizer: PreTrainedTokenizerBase) -> ChatFormat:
    """Finding out how a model writes calls takes longer than a row."""
    return ChatFormat(tokenizer, speaks=False)


def _encode_batch(
    tokenizer: PreTrainedTokenizerBase, batch: Sequence[Mapping[str, Any]], answers: Sequence[str]
) -> Iterator[EncodedRow]:
    form = answer_form(tokenizer)
    prompts = [form.prompt(row["prompt"]) for row in batch]
    written = [prompt for prompt in prompts if isinstance(prompt, str)]
    # each prompt once, then all answers, each behind the end of its prompt
    prompt_ids = iter(form.tokens(written))
    texts = [
        (prompt, row[name][-1]["content"], (row[name][-1].get("reasoning_content") or "").strip())
        for row, prompt in zip(batch, prompts, strict=True)
        for name in answers
        if row.get(name) and isinstance(prompt, str)
    ]
    answer_ids = iter(form.behind(texts))
    for row, prompt in zip(batch, prompts, strict=True):
        if isinstance(prompt, ChatRefused):
            yield {"refused": str(prompt)}
            continue
        own = {f"{name}_ids": next(answer_ids) for name in answers if row.get(name)}
        yield {"prompt_ids": next(prompt_ids), **own, **_flag_lost(form, row, answers)}


def _flag_lost(form: AnswerFrame, row: Mapping[str, Any], answers: Sequence[str]) -> dict[str, bool]:
    """A flag where thoughts should be learned and are not."""
    has_thoughts = form.drops_thoughts and any(
        message.get("reasoning_content") for name in answers for message in row.get(name) or ()
    )
    return {"dropped_thoughts": True} if has_thoughts else {}
