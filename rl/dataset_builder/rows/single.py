"""Scored answers that are in no pair: rows for reward models, beside the pairs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from uuid import UUID

from rl.base.records import JudgedAnswer
from rl.data_formatter.scored import single_row
from rl.dataset_builder.options import DataOptions
from rl.dataset_builder.plan.shortage import plural
from rl.dataset_builder.read.groups import PromptRows, Source, Tally
from rl.dataset_builder.rows.judged import JudgedRows, label_rule
from rl.models import Agent


class PairsMade:
    """Which answers are in a pair."""

    def __init__(self) -> None:
        self.count = 0
        self.train = 0
        """Pairs that are not held out."""
        self._trace_ids: set[bytes] = set()

    def note(self, prompt_rows: PromptRows) -> PromptRows:
        """The same rows."""
        pairs = len(prompt_rows.rows)
        self.count += pairs
        self.train += 0 if prompt_rows.held_out else pairs
        self._trace_ids.update(UUID(trace_id).bytes for trace_id in prompt_rows.trace_ids)
        return prompt_rows

    def has(self, answer: JudgedAnswer) -> bool:
        return any(UUID(trace_id).bytes in self._trace_ids for trace_id in answer.trace_ids)


class SingleRows(JudgedRows):
    method = "reward_model"

    def __init__(self, agent: Agent, source: Source, options: DataOptions, tally: Tally, pairs: PairsMade) -> None:
        super().__init__(agent, source, options, tally)
        self._rule, self._pairs = label_rule(agent, options.min_confidence), pairs
        self.prompts_with_pairs = 0
        """Prompts that gave single answers and pairs."""
        self._lowest, self._highest = math.inf, -math.inf
        """Scores of the answers to train on."""

    def problem(self, train: int, held_out: int) -> str:
        if problem := super().problem(train, held_out):
            return problem
        if self._pairs.train or self._lowest < self._highest:
            return ""
        advice = "up or down" if self._lowest == 0.5 else "down" if self._lowest > 0.5 else "up"
        return (
            f"no answers make a pair, and all {plural(train, 'scored answer')} to train on have the score "
            f"{self._lowest:g}: a reward model learns from the difference. rate some answers {advice}"
        )

    def _rows(self, answers: Iterable[JudgedAnswer]) -> Iterator[PromptRows]:
        in_pairs = rows = 0
        for answer in answers:
            if self._pairs.has(answer):
                in_pairs += 1
            elif row := single_row(answer, self._rule, self._tally.skipped):
                rows += 1
                held_out = self._is_held_out(answer.split_key)
                if not held_out:
                    self._lowest, self._highest = min(self._lowest, row["score"]), max(self._highest, row["score"])
                yield PromptRows(held_out, [row], frozenset(answer.trace_ids))
        self.prompts_with_pairs += bool(in_pairs and rows)

    def _too_few(self, rows: int) -> Iterator[str]:
        pairs, single = plural(self._pairs.count, "pair"), plural(rows - self._pairs.count, "single scored answer")
        yield self._needs(f"{pairs} and {single} make {plural(rows, 'row')}")
        rewards = f", or let rewards score them: {self._how_to_reward()}" if self._rewards_wait else ""
        yield f"rate {plural(self._options.min_samples - rows, 'more answer')}, by thumb, stars or score{rewards}"
