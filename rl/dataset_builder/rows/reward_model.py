"""Rows for reward models: the pairs of people; of an agent that has none, answers to one prompt with different rewards."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any

from rl.data_formatter.opinions import OVER_LIMIT, stable_hash
from rl.dataset_builder.options import DataOptions
from rl.dataset_builder.plan.shortage import plural
from rl.dataset_builder.read.groups import PromptRows, Source, Tally
from rl.dataset_builder.rows.judged import GroupRows
from rl.dataset_builder.rows.pairs import PairRows
from rl.models import Agent


class RewardPairs:
    def __init__(self, agent: Agent, source: Source, options: DataOptions, tally: Tally) -> None:
        self._arguments, self._tally, self._options = (agent, source, options), tally, options
        self._from_people = PairRows(agent, source, options, tally)
        self._from_rewards: GroupRows | None = None

    def prompts(self) -> Iterator[PromptRows]:
        has_pairs = False
        for rows in self._from_people.prompts():
            has_pairs = True
            yield rows
        if not has_pairs and self._arguments[1].has_ids:
            yield from self._rows_from_rewards()

    def problem(self, train: int, held_out: int) -> str:
        """Why the rows are too few to train on; for an agent with neither kind of pair, what people can do about it."""
        pairs = train + held_out
        if self._from_rewards is None or not pairs:
            return self._from_people.problem(train, held_out)
        if pairs >= self._options.min_samples:
            return self._from_rewards.problem(train, held_out)
        return (
            f"people gave no pairs, and the rewards give {plural(pairs, 'pair')} of answers to "
            f"{plural(self._tally.prompts, 'prompt')}, and {self._options.min_samples:,} are needed: rate answers to one "
            "prompt up and down, or let the agent answer its prompts again"
        )

    def _rows_from_rewards(self) -> Iterator[PromptRows]:
        agent, source, options = self._arguments
        tally = Tally()
        self._from_rewards = GroupRows(agent, source, options, tally)
        for prompt_rows in self._from_rewards.prompts():
            rows = [pair for row in prompt_rows.rows for pair in self._pairs(row)]
            yield PromptRows(prompt_rows.held_out, rows, prompt_rows.trace_ids)
        if tally.prompts:
            _take_over(self._tally, tally)

    def _pairs(self, row: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Those with the largest difference first; never answers to different prompts."""
        pairs = sorted(_contrasts(row), key=lambda pair: (-pair["difference"], _hash(pair)))
        self._tally.skipped[OVER_LIMIT] += max(0, len(pairs) - self._options.max_pairs_per_question)
        return pairs[: self._options.max_pairs_per_question]


def _contrasts(row: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    answers: Sequence[tuple[float, Any]] = list(zip(row["rewards"], row["completions"], strict=True))
    for first, second in combinations(answers, 2):
        if first[0] != second[0]:
            better, worse = (first, second) if first[0] > second[0] else (second, first)
            yield {
                "prompt": row["prompt"],
                "chosen": better[1],
                "rejected": worse[1],
                "prompt_key": row["prompt_key"],
                "feedback": row["feedback"],
                "split_key": row["split_key"],
                "difference": round(better[0] - worse[0], 6),
            }


def _hash(pair: Mapping[str, Any]) -> int:
    return stable_hash(pair["chosen"][0]["content"] + "\n" + pair["rejected"][0]["content"])


def _take_over(tally: Tally, newer: Tally) -> None:
    """The account of the pass that gave the rows, in the place of the one that gave none."""
    newer.skipped.update({reason: number for reason, number in tally.skipped.items() if reason == OVER_LIMIT})
    for name in ("read", "ids", "usable", "prompts_read", "prompts", "disputed", "skipped"):
        setattr(tally, name, getattr(newer, name))
