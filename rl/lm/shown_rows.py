"""Rows as the model sees them, for people to look at: kept by a run, or asked of ``main`` before there is one.

``main`` is a process of its own (``rl.runs.preview`` starts it): standard input has the arguments of ``look``, standard
output a list with what becomes of each row."""

import json
import resource
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from transformers import PreTrainedTokenizerBase
from transformers.utils import logging

from rl.base.errors import UsageError
from rl.base.manner import Manner
from rl.base.records import silent
from rl.lm.encoding import encode
from rl.lm.lengths import EncodedRow, LengthCount
from rl.lm.own_tokens import plain
from rl.lm.reading import read_tokenizer

MOST_SHOWN: Final = 40
"""Rows that a run keeps."""
MOST_LEFT_OUT: Final = 20
MOST_PROMPT: Final = 4_000
"""Characters of a prompt that are shown, the last ones."""
MOST_TOKENS: Final = 500
"""Tokens of an answer that are shown, the first ones."""
_UNFINISHED: Final = "\ufffd"
_MOST_IN_A_LETTER: Final = 4
"""Tokens that may be one letter together."""
_KEPT: Final = (
    *("weight", "label", "label_source", "score", "score_source", "reward", "rewards", "feedback", "prompt_key"),
)
_LIMITS: Final = {resource.RLIMIT_AS: 2**32, resource.RLIMIT_CPU: 60, resource.RLIMIT_CORE: 0}


class ShownRows:
    """The first rows that go by."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase, most: int = MOST_SHOWN) -> None:
        self._tokenizer, self._most = tokenizer, most
        self._rows: list[dict[str, Any]] = []
        self._left_out: list[dict[str, Any]] = []

    def add(self, row: Mapping[str, Any], ids: EncodedRow, learned: EncodedRow | None) -> None:
        """``row``: as it is stored; ``ids``: its tokens; ``learned``: those that fit, None where it is left out."""
        kept, most = (self._rows, self._most) if learned else (self._left_out, MOST_LEFT_OUT)
        if len(kept) < most:
            kept.append(describe(self._tokenizer, row, ids, learned))

    def as_dict(self) -> dict[str, Any]:
        return {"rows": self._rows, "left_out": self._left_out}


def describe(
    tokenizer: PreTrainedTokenizerBase, row: Mapping[str, Any], ids: EncodedRow, learned: EncodedRow | None
) -> dict[str, Any]:
    """The arguments are those of ``ShownRows.add``. A row that is left out has the ``reason``, and the ``question``."""
    if learned is None:
        reason = ids.get("refused") or f"its prompt has {len(ids['prompt_ids'])} tokens, too many"
        return {"reason": reason, "question": str(row["prompt"][-1]["content"])[-MOST_PROMPT:]}
    names = [name for name in learned if name.endswith("_ids") and name != "prompt_ids" and learned[name]]
    answers = [
        {
            "name": name.removesuffix("_ids"),
            "tokens": len(learned[name]),
            "is_cut": len(learned[name]) < len(ids[name]),
            "pieces": list(_pieces(tokenizer, learned[name][:MOST_TOKENS])),
        }
        for name in names
    ]
    return {
        "prompt": tokenizer.decode(learned["prompt_ids"])[-MOST_PROMPT:],
        "prompt_tokens": len(learned["prompt_ids"]),
        "answers": answers,
        **{name: row[name] for name in _KEPT if name in row},
    }


def _pieces(tokenizer: PreTrainedTokenizerBase, ids: Sequence[int]) -> Iterator[tuple[str, bool]]:
    """Texts of one token each, or of those that make a letter together, and whether they are learned."""
    readable, begun, before = plain(ids), 0, ""
    for end in range(1, len(ids) + 1):
        text = tokenizer.decode(readable[:end])
        is_whole = not text.endswith(_UNFINISHED) or end - begun == _MOST_IN_A_LETTER or end == len(ids)
        if is_whole or (ids[end] >= 0) != (ids[begun] >= 0):
            yield text[len(before) :], ids[begun] >= 0
            begun, before = end, text


def look(
    source: str, manner: Sequence[Any], most_tokens: int | None, rows: Sequence[Mapping[str, Any]]
) -> Iterator[dict[str, Any]]:
    """What becomes of each row, in their order. ``manner``: the fields of the Manner in which a run asks; ``most_tokens``:
    of prompt and answer together; None: as many as there are; ``rows``: each with its ``answers`` by name. Raises UsageError
    for a tokenizer that cannot be loaded or cannot write a chat."""
    tokenizer, lengths = read_tokenizer(source, UsageError, Manner(*manner)), LengthCount()
    names = dict.fromkeys(name for row in rows for name in row["answers"])
    flat = [{**row, **row["answers"]} for row in rows]
    for row, ids in zip(rows, encode(tokenizer, flat, len(rows), silent, [*names]), strict=True):
        yield describe(tokenizer, row, ids, lengths.fit(ids, most_tokens or sys.maxsize))


def main() -> None:
    request = json.load(sys.stdin)
    for limit, value in _LIMITS.items():
        with suppress(ValueError, OSError):  # a stricter limit is in force, or this system has no such one
            resource.setrlimit(limit, (value, value))
    logging.set_verbosity_error()
    try:
        json.dump(list(look(**request)), sys.stdout)
    except UsageError as error:
        sys.exit(str(error))
