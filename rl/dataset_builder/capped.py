"""The rows to train on, with no more from one rater than the agent's ``rater_cap`` allows.

The first pass writes the rows to a temporary file and counts them, the second reads that file: both see the same moment, and
no row is in memory. Rows with weights are weighed down, others left out, those with the largest hash first: the choice knows
neither the numbers of the database nor the time."""

import json
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from fractions import Fraction
from itertools import chain
from tempfile import SpooledTemporaryFile
from typing import Any, Protocol

from rl.base.leaves import leaf_name
from rl.collect.traces.rows import chunks
from rl.config import find_rows
from rl.config.methods import Column
from rl.data_formatter.opinions import OVER_CAP, WEIGHED_DOWN, stable_hash
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


class RowBuilder(Protocol):
    def __init__(self, agent: Agent, source: Source, options: DataOptions, tally: Tally) -> None: ...

    def prompts(self) -> Iterator[PromptRows]:
        """In the order of the prompts' keys; what is read and what is left out goes into the tally."""
        ...

    def problem(self, train: int, held_out: int) -> str:
        """After ``prompts``: why these numbers of rows are too few to train on; empty when they are enough."""
        ...


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
    builder: RowBuilder = leaf_name(find_rows(method).builder)(agent, source, options, tally)
    raters = Feedback.objects.filter(agent=agent, is_current=True).order_by().values_list("rater", flat=True)
    if not (source.has_ids and agent.rater_cap < 1):
        return builder
    if any(raters.exclude(rater=first).exists() for first in raters[:1]):
        is_weighed = find_rows(method).columns.get("weight") is Column.NUMBER
        return _CappedRows(builder, agent.rater_cap, tally, is_weighed, look)
    return builder


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
            for number, part in enumerate(self._owners.take(self._builder.prompts())):
                if number % ROWS_A_LOOK == 0:
                    self._look()
                file.write(json.dumps([part.held_out, part.rows, sorted(part.trace_ids)]) + "\n")
            file.seek(0)
            lines = map(json.loads, file)
            rows = (PromptRows(held_out, own, frozenset(trace_ids)) for held_out, own, trace_ids in lines)
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
                verdicts = (row.get("label", row.get("score")) for row in part.rows)
                self._verdicts.update(() if part.held_out else verdicts)
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
        """Gives what it has counted. Held-out rows count as nobody's and weigh nothing."""
        return chain.from_iterable(map(self._count, chunks(prompts, _AT_ONCE)))

    def _count(self, waiting: list[PromptRows]) -> list[PromptRows]:
        trained = [row for part in waiting if not part.held_out for row in part.rows]
        ids = sorted({number for row in trained for number in evidence(row)})
        names = dict(chain.from_iterable(some.values_list("pk", "rater") for some in Feedback.by_ids(ids)))
        for part in waiting:
            owner = NOBODY if part.held_out else self._owner(part.rows, names)
            weights = (round(row["weight"] * UNITS) if self._weighed else 1 for row in part.rows)
            weight = 0 if part.held_out else sum(weights)
            self.of_rows.append(owner)
            texts = [] if owner == NOBODY else [str(part.rows[0].get(name)) for name in _TEXTS]
            self.hashes.append(stable_hash("\0".join(texts)) if texts else 0)
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
