"""Whose the rows of a training are: who alone gave the feedback that they rest on."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Any

from rl.data_formatter.opinions import stable_hash
from rl.dataset_builder.read.groups import PromptRows
from rl.models import Feedback

NOBODY = -1
UNITS = 10_000
"""In a weight of 1: its four decimal places add up without rounding."""
_AT_ONCE = 500
"""Rows whose raters are asked for together."""
_TEXTS = ("prompt", "chosen", "rejected", "completion", "label", "score")


class Owners:
    """Takes rows in their order, and keeps twelve bytes of each."""

    def __init__(self, weighed: bool) -> None:
        """``weighed``: the rows have weights of their own; else each weighs the same."""
        self._weighed = weighed
        self._numbers: dict[str, int] = {}
        self.weights: list[int] = []
        """What each rater's own rows weigh, in units; 0 where he shares all with others."""
        self.others = 0
        """What the rows weigh that are nobody's."""
        self.of_rows = array("i")
        """Number of the rater, or NOBODY."""
        self.hashes = array("Q")

    def take(self, prompts: Iterable[PromptRows]) -> Iterator[PromptRows]:
        """Yields what it has counted. Held-out rows count as nobody's and weigh nothing."""
        waiting: list[PromptRows] = []
        for prompt_rows in prompts:
            waiting.append(prompt_rows)
            if len(waiting) == _AT_ONCE:
                yield from self._count(waiting)
                waiting = []
        yield from self._count(waiting)

    def _count(self, waiting: list[PromptRows]) -> list[PromptRows]:
        trained = [row for part in waiting if not part.held_out for row in part.rows]
        names = _raters(sorted({number for row in trained for number in evidence(row)}))
        for part in waiting:
            owner = NOBODY if part.held_out else self._owner(part.rows, names)
            rows = [] if part.held_out else part.rows
            weight = sum(round(row["weight"] * UNITS) for row in rows) if self._weighed else len(rows)
            self.of_rows.append(owner)
            self.hashes.append(0 if owner == NOBODY else stable_hash(_words(part.rows[0])))
            if owner == NOBODY:
                self.others += weight
            else:
                self.weights[owner] += weight
        return waiting

    def _owner(self, rows: list[dict[str, Any]], names: Mapping[int, str]) -> int:
        raters = {names.get(number, "") for row in rows for number in evidence(row)}
        numbers = [self._number(rater) for rater in sorted(raters) if rater]
        return numbers[0] if len(rows) == len(raters) == len(numbers) == 1 else NOBODY

    def _number(self, rater: str) -> int:
        if rater not in self._numbers:
            self._numbers[rater] = len(self.weights)
            self.weights.append(0)
        return self._numbers[rater]


def evidence(row: Mapping[str, Any]) -> list[int]:
    """Ids of the feedback that says what the row says; empty where a reward or a model does."""
    source = row.get("label_source", row.get("score_source", "person"))
    by_reward = "difference" in row or "reward" in row or "rewards" in row
    return [] if by_reward or source != "person" else row["feedback"]


def _raters(ids: list[int]) -> dict[int, str]:
    chunks = (ids[start : start + _AT_ONCE] for start in range(0, len(ids), _AT_ONCE))
    rows = (Feedback.objects.filter(pk__in=chunk).order_by().values_list("pk", "rater") for chunk in chunks)
    return dict(chain.from_iterable(rows))


def _words(row: Mapping[str, Any]) -> str:
    return "\0".join(str(row.get(name)) for name in _TEXTS)
