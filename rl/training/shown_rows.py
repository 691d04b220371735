"""Rows as the model sees them, for people: the prompt as it is read, and of each answer the tokens that are learned.

A run keeps its first rows and the first ones that were left out in its folder, where its page finds them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Final

from transformers import PreTrainedTokenizerBase

from rl.base.files import write_json
from rl.base.records import silent
from rl.config import find_rows
from rl.config.methods import Column
from rl.config.training_job import LEARNED_ROWS
from rl.lm.encoding import encode
from rl.lm.lengths import EncodedRow
from rl.lm.own_tokens import plain

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
    "weight",
    "label",
    "label_source",
    "score",
    "score_source",
    "reward",
    "rewards",
    "feedback",
    "prompt_key",
)


class ShownRows:
    """The first rows that go by."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase, most: int = MOST_SHOWN) -> None:
        self._tokenizer, self._most = tokenizer, most
        self._rows: list[dict[str, Any]] = []
        self._left_out: list[dict[str, Any]] = []

    def add(self, row: Mapping[str, Any], ids: EncodedRow, learned: EncodedRow | None) -> None:
        """``row``: as it is stored; ``ids``: its tokens; ``learned``: those that fit, None where it is left out."""
        if learned is None and len(self._left_out) < MOST_LEFT_OUT:
            reason = ids.get("refused") or f"its prompt has {len(ids['prompt_ids'])} tokens, too many"
            self._left_out.append({"reason": reason, "question": _question(row)})
        elif learned is not None and len(self._rows) < self._most:
            self._rows.append(self._describe(row, ids, learned))

    def as_dict(self) -> dict[str, Any]:
        return {"rows": self._rows, "left_out": self._left_out}

    def write(self, folder: Path) -> None:
        write_json(folder / LEARNED_ROWS, self.as_dict())

    def _describe(self, row: Mapping[str, Any], ids: EncodedRow, learned: EncodedRow) -> dict[str, Any]:
        prompt = self._tokenizer.decode(learned["prompt_ids"])
        names = [name for name in learned if name.endswith("_ids") and name != "prompt_ids" and learned[name]]
        answers = [
            {
                "name": name.removesuffix("_ids"),
                "tokens": len(learned[name]),
                "is_cut": len(learned[name]) < len(ids[name]),
                "pieces": list(self._pieces(learned[name][:MOST_TOKENS])),
            }
            for name in names
        ]
        return {
            "prompt": prompt[-MOST_PROMPT:],
            "prompt_tokens": len(learned["prompt_ids"]),
            "answers": answers,
            **{name: row[name] for name in _KEPT if name in row},
        }

    def _pieces(self, ids: Sequence[int]) -> Iterator[tuple[str, bool]]:
        """Texts of one token each, or of those that make a letter together, and whether they are learned."""
        readable, begun, before = plain(ids), 0, ""
        for end in range(1, len(ids) + 1):
            text = self._tokenizer.decode(readable[:end])
            is_whole = not text.endswith(_UNFINISHED) or end - begun == _MOST_IN_A_LETTER or end == len(ids)
            if is_whole or (ids[end] >= 0) != (ids[begun] >= 0):
                yield text[len(before) :], ids[begun] >= 0
                begun, before = end, text


def show_rows(
    tokenizer: PreTrainedTokenizerBase, rows: Iterable[Mapping[str, Any]], method: str, count: int
) -> dict[str, Any]:
    """The first ``count`` rows of a method as ``ShownRows`` keeps them, before there is a run: nothing is too long yet."""
    chosen, shown = list(islice(rows, count)), ShownRows(tokenizer, count)
    answers = find_rows(method).names(Column.MESSAGES)
    for row, ids in zip(chosen, encode(tokenizer, chosen, len(chosen), silent, answers), strict=True):
        shown.add(row, ids, None if "refused" in ids else ids)
    return shown.as_dict()


def _question(row: Mapping[str, Any]) -> str:
    return str(row["prompt"][-1]["content"])[-MOST_PROMPT:]
