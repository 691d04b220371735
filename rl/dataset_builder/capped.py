"""The rows to train on, with no more from one rater than the agent's ``rater_cap`` allows.

The first pass writes the rows to a temporary file and counts them, the second reads that file: both see the same moment, and
no row is in memory. Rows with weights are weighed down, others left out, those with the largest hash first: the choice knows
neither the numbers of the database nor the time.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from fractions import Fraction
from itertools import chain
from tempfile import SpooledTemporaryFile
from typing import IO, Any

from rl.config import find_rows
from rl.config.methods import Column
from rl.data_formatter.opinions import OVER_CAP, WEIGHED_DOWN, stable_hash
from rl.dataset_builder.methods import RowBuilder, row_builder
from rl.dataset_builder.options import DataOptions
from rl.dataset_builder.plan.shortage import plural
from rl.dataset_builder.read.groups import PromptRows, Source, Tally
from rl.models import Agent, Feedback
from rl.raters.agreement import limit

ROWS_A_LOOK = 1000
_IN_MEMORY = 32 * 2**20
"""Bytes of rows; more go to the disk."""
NOBODY = -1
UNITS = 10_000
"""In a weight of 1: its four decimal places add up without rounding."""
_AT_ONCE = 500
"""Rows whose raters are asked for together."""
_TEXTS = ("prompt", "chosen", "rejected", "completion", "label", "score")


def build_rows(
    method: str,
    agent: Agent,
    source: Source,
    options: DataOptions,
    tally: Tally,
    *,
    look: Callable[[], None] = lambda: None,
) -> RowBuilder:
    """``look`` is called now and then while nothing is yielded yet. Raises UsageError that lists the known methods."""
    builder = row_builder(method)(agent, source, options, tally)
    if source.has_ids and agent.rater_cap < 1 and _has_several_raters(agent):
        is_weighed = find_rows(method).columns.get("weight") is Column.NUMBER
        return _CappedRows(builder, agent.rater_cap, tally, is_weighed, look)
    return builder


def _has_several_raters(agent: Agent) -> bool:
    raters = Feedback.objects.filter(agent=agent, is_current=True).order_by().values_list("rater", flat=True)
    return any(raters.exclude(rater=first).exists() for first in raters[:1])


class _CappedRows:
    """Another builder's. What is held out stays as it is: nothing is learned from it."""

    def __init__(
        self, builder: RowBuilder, cap: float, tally: Tally, is_weighed: bool, look: Callable[[], None]
    ) -> None:
        self._builder, self._cap, self._tally, self._look = builder, cap, tally, look
        self._owners, self._is_weighed = Owners(is_weighed), is_weighed
        self._verdicts: set[object] = set()
        """What the rows say of their answers; None: that one is better than another."""

    def prompts(self) -> Iterator[PromptRows]:
        with SpooledTemporaryFile(_IN_MEMORY, mode="w+", encoding="utf-8") as file:
            self._write(file)
            file.seek(0)
            rows = map(_read_line, file)
            bound = limit(self._owners.weights, self._cap, self._owners.others)
            if bound is None:
                yield from rows
            else:
                yield from self._weigh_down(rows, bound) if self._is_weighed else self._leave_out(rows, int(bound))

    def problem(self, train: int, held_out: int) -> str:
        problem = self._builder.problem(train, held_out)
        left_out = self._tally.skipped[OVER_CAP]
        if left_out and not problem and len(self._verdicts) == 1 and None not in self._verdicts:
            problem = f"all {plural(train, 'row')} to train on say the same of their answers"
        if not (left_out and problem):
            return problem
        return (
            f"{problem}. {plural(left_out, 'row')} more would let one rater weigh more than {self._cap:.0%}, or more than "
            "any other: let others rate too, or raise the agent's rater_cap"
        )

    def _write(self, file: IO[str]) -> None:
        for number, part in enumerate(self._owners.take(self._builder.prompts())):
            if number % ROWS_A_LOOK == 0:
                self._look()
            file.write(json.dumps([part.held_out, part.rows, sorted(part.trace_ids)]) + "\n")

    def _weigh_down(self, parts: Iterator[PromptRows], bound: Fraction) -> Iterator[PromptRows]:
        weights = self._owners.weights
        for part, owner in zip(parts, self._owners.of_rows, strict=True):
            if owner == NOBODY or weights[owner] <= bound:
                yield part
            else:
                self._tally.taken[WEIGHED_DOWN] += 1
                share = float(bound / weights[owner])
                yield replace(
                    part, rows=[{**row, "weight": float(f"{row['weight'] * share:.6g}")} for row in part.rows]
                )

    def _leave_out(self, parts: Iterator[PromptRows], most: int) -> Iterator[PromptRows]:
        over, feedback, prompts = self._over(most), _Lost(), _Lost()
        for part, is_over in zip(parts, over, strict=True):
            for row in part.rows:
                feedback.saw(row["feedback"], is_over)
                prompts.saw((stable_hash(row["prompt_key"]),), is_over)
            if not is_over:
                self._verdicts.update([] if part.held_out else map(_verdict, part.rows))
                yield part
        self._tally.skipped[OVER_CAP] += sum(over)
        self._tally.usable -= feedback.number()
        self._tally.prompts -= prompts.number()

    def _over(self, most: int) -> bytearray:
        """For each row whether it is too many."""
        of_rows, hashes, weights = self._owners.of_rows, self._owners.hashes, self._owners.weights
        over = bytearray(len(of_rows))
        for heavy in (rater for rater, weight in enumerate(weights) if weight > most):
            numbers = array("q", (number for number, owner in enumerate(of_rows) if owner == heavy))
            for number in sorted(numbers, key=hashes.__getitem__)[most:]:
                over[number] = 1
        return over


class _Lost:
    """Numbers of what was left out and not kept elsewhere."""

    def __init__(self) -> None:
        self._kept, self._left_out = array("Q"), array("Q")

    def saw(self, numbers: Iterable[int], is_over: int) -> None:
        (self._left_out if is_over else self._kept).extend(numbers)

    def number(self) -> int:
        return len(set(self._left_out).difference(self._kept))


def _read_line(line: str) -> PromptRows:
    held_out, rows, trace_ids = json.loads(line)
    return PromptRows(held_out, rows, frozenset(trace_ids))


def _verdict(row: Mapping[str, Any]) -> object:
    if "label" in row or "score" in row:
        return row.get("label", row.get("score"))
    return None


class Owners:
    """Knows who alone gave the feedback that rows rest on. Takes rows in their order, and keeps twelve bytes of each."""

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
            weight = 0 if part.held_out else sum(map(self._weight, part.rows))
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

    def _weight(self, row: Mapping[str, Any]) -> int:
        return round(row["weight"] * UNITS) if self._weighed else 1


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
