"""What would be written, counted only."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from statistics import fmean, pstdev
from typing import Any

from rl.base.messages import characters
from rl.base.records import Message
from rl.data_formatter.opinions import CONTRADICTION, DUPLICATE, SAME_TEXT
from rl.dataset_builder.capped import build_rows
from rl.dataset_builder.options import DataOptions
from rl.dataset_builder.read.groups import Source, Tally
from rl.dataset_builder.read.ratings import DatabaseSource
from rl.dataset_builder.read.scores import score_figures
from rl.models import Agent

See = Callable[[Mapping[str, Any]], None]


@dataclass(frozen=True, slots=True)
class LengthSpread:
    """Characters."""

    min: int
    median: int
    p95: int
    max: int


@dataclass(frozen=True, slots=True)
class Survey:
    """What ``freeze`` would write now. Nothing has been written."""

    ratings_read: int
    """All current feedback items, side-by-side picks and edited answers included."""
    ratings_usable: int
    """Those that take part in a row."""
    prompts_read: int
    prompts: int
    """Those that give a row."""
    train_rows: int
    heldout_rows: int
    train_prompts: int
    heldout_prompts: int
    skipped: Counter[str]
    """Reason to how often."""
    taken: Counter[str]
    """Reason to how often something in dispute was taken all the same."""
    prompt_lengths: LengthSpread | None
    """None when there is no row."""
    answer_lengths: LengthSpread | None
    score_mean: float | None
    """Mean of the rows' labels (1 is good), rewards or scores; where rows have none, of the ratings; None without any."""
    score_std: float | None
    contradictions: int
    """Answers that some raters liked and others did not, and texts preferred to each other both ways."""
    duplicates: int
    """Answers and preferences that say again what others said, and preferences between equal texts."""
    shortage: str
    """Why this is too little to train on; empty when it is enough."""

    def as_dict(self) -> dict[str, Any]:
        counted = {"skipped": self.skipped, "taken": self.taken}
        return asdict(self) | {name: dict(counts.most_common()) for name, counts in counted.items()}


def survey(
    agent: Agent, options: DataOptions, source: Source | None = None, *, method: str = "dpo", see: See | None = None
) -> Survey:
    """``source`` as ``freeze`` has it; ``see``: is shown each row to train on. Raises BadFile."""
    source, tally = source or DatabaseSource(agent), Tally()
    builder = build_rows(method, agent, source, options, tally)
    rows_on: Counter[bool] = Counter()
    prompts_on: dict[bool, set[str]] = {True: set(), False: set()}
    prompt_lengths, answer_lengths, scores = array("q"), array("q"), array("d")
    for prompt_rows in builder.prompts():
        rows_on[prompt_rows.held_out] += len(prompt_rows.rows)
        for row in prompt_rows.rows:
            if see and not prompt_rows.held_out:
                see(row)
            prompts_on[prompt_rows.held_out].add(row["prompt_key"])
            prompt_lengths.append(characters(row["prompt"]))
            answer_lengths.extend(map(characters, answers_of(row)))
            own = [float(row[name]) for name in ("label", "reward", "score") if name in row]
            scores.extend(row.get("rewards", own))
    skipped = tally.skipped
    figures = score_figures(tally.ids) if source.has_ids and not scores else {}
    if scores:
        figures = {"mean": fmean(scores), "std": pstdev(scores)}
    return Survey(
        ratings_read=tally.read,
        ratings_usable=tally.usable,
        prompts_read=tally.prompts_read,
        prompts=tally.prompts,
        train_rows=rows_on[False],
        heldout_rows=rows_on[True],
        train_prompts=len(prompts_on[False]),
        heldout_prompts=len(prompts_on[True]),
        skipped=skipped,
        taken=tally.taken,
        prompt_lengths=_lengths(prompt_lengths),
        answer_lengths=_lengths(answer_lengths),
        score_mean=figures.get("mean"),
        score_std=figures.get("std"),
        contradictions=tally.disputed + skipped[CONTRADICTION],
        duplicates=skipped[DUPLICATE] + skipped[SAME_TEXT],
        shortage=builder.problem(rows_on[False], rows_on[True]),
    )


def answers_of(row: Mapping[str, Any]) -> list[list[Message]]:
    answers: list[list[Message]] = [row[name] for name in ("chosen", "rejected", "completion") if row.get(name)]
    return [*answers, *row.get("completions", [])]


def _lengths(values: array[int]) -> LengthSpread | None:
    if not values:
        return None
    ranked = sorted(values)
    last = len(ranked) - 1
    return LengthSpread(ranked[0], ranked[last // 2], ranked[round(last * 0.95)], ranked[last])
