"""Rows for reward models: the pairs of people; of an agent that has none, answers to one prompt with different rewards; and
the answers that are in no pair, each with its score."""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any
from uuid import UUID

from rl.base.messages import tools_of
from rl.base.records import JudgedAnswer
from rl.data_formatter import opinions
from rl.data_formatter.opinions import OVER_LIMIT, stable_hash
from rl.data_formatter.scored import single_row
from rl.dataset_builder.options import DataOptions
from rl.dataset_builder.plan.shortage import plural
from rl.dataset_builder.read.groups import OTHER_PROMPT, TIE, PromptRows, Source, Tally
from rl.dataset_builder.rows.judged import GroupRows, JudgedRows, label_rule
from rl.dataset_builder.rows.pairs import PairRows
from rl.models import Agent

_OF_PAIRS = (
    OVER_LIMIT,
    OTHER_PROMPT,
    TIE,
    opinions.CONTRADICTION,
    opinions.MIXED_SCENARIO,
    opinions.NO_WIDGET,
    opinions.OUTVOTED,
    opinions.SAME_TEXT,
    opinions.UNKNOWN_SCENARIO,
)
"""Reasons why two answers make no pair. Those that concern one answer are counted again where it may stand alone."""


class RewardModelRows:
    """Files that are not imported give pairs only."""

    def __init__(self, agent: Agent, source: Source, options: DataOptions, tally: Tally) -> None:
        self._agent, self._source, self._options, self._tally = agent, source, options, tally
        self._from_people = PairRows(agent, source, options, tally)
        self._pairs = PairsMade()
        self._single: SingleRows | None = None

    def prompts(self) -> Iterator[PromptRows]:
        """Pairs, in the order of the prompts' keys, and then the answers that stand alone, in the same order."""
        if not self._source.has_ids:
            yield from self._from_people.prompts()
            return
        yield from map(self._pairs.note, self._from_people.prompts())
        if not self._pairs.count:
            yield from map(self._pairs.note, self._rows_from_rewards())
        yield from self._rows_of_single_answers()

    def problem(self, train: int, held_out: int) -> str:
        return (self._single or self._from_people).problem(train, held_out)

    def _rows_from_rewards(self) -> Iterator[PromptRows]:
        own = Tally()
        for prompt_rows in GroupRows(self._agent, self._source, self._options, own).prompts():
            rows = [pair for row in prompt_rows.rows for pair in self._pairs_of(row)]
            yield PromptRows(prompt_rows.held_out, rows, prompt_rows.trace_ids)
        self._tally.usable += own.usable
        self._tally.prompts += own.prompts

    def _rows_of_single_answers(self) -> Iterator[PromptRows]:
        """Feedback counts as read by the first pass."""
        of_pairs = Counter({reason: self._tally.skipped[reason] for reason in _OF_PAIRS if self._tally.skipped[reason]})
        own = Tally(skipped=of_pairs, prompts=self._tally.prompts)
        self._single = SingleRows(self._agent, self._source, self._options, own, self._pairs)
        yield from self._single.prompts()
        own.prompts -= self._single.prompts_with_pairs
        self._tally.skipped = own.skipped
        self._tally.usable += own.usable
        self._tally.prompts, self._tally.prompts_read = own.prompts, own.prompts_read

    def _pairs_of(self, row: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Those with the largest difference first; never answers to different prompts."""
        pairs = sorted(_contrasts(row), key=lambda pair: (-pair["difference"], _hash(pair)))
        self._tally.skipped[OVER_LIMIT] += max(0, len(pairs) - self._options.max_pairs_per_question)
        return pairs[: self._options.max_pairs_per_question]


def _contrasts(row: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    answers: Sequence[tuple[float, Any]] = list(zip(row["rewards"], row["completions"], strict=True))
    for first, second in combinations(answers, 2):
        if first[0] != second[0]:
            better, worse = (first, second) if first[0] > second[0] else (second, first)
            answers_of_pair = {"prompt": row["prompt"], "chosen": better[1], "rejected": worse[1]}
            about = {name: row[name] for name in ("prompt_key", "feedback", "split_key")}
            yield {**tools_of(row), **answers_of_pair, **about, "difference": round(better[0] - worse[0], 6)}


def _hash(pair: Mapping[str, Any]) -> int:
    return stable_hash(pair["chosen"][-1]["content"] + "\n" + pair["rejected"][-1]["content"])


class PairsMade:
    def __init__(self) -> None:
        self.count = 0
        self.train = 0
        """Pairs that are not held out."""
        self._trace_ids: set[bytes] = set()

    def note(self, prompt_rows: PromptRows) -> PromptRows:
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
                held_out = self._split.is_held_out(answer.split_key)
                if not held_out:
                    self._lowest, self._highest = min(self._lowest, row["score"]), max(self._highest, row["score"])
                yield PromptRows(held_out, [row], frozenset(answer.trace_ids))
        self.prompts_with_pairs += bool(in_pairs and rows)

    def _too_few(self, rows: int) -> Iterator[str]:
        pairs, single = plural(self._pairs.count, "pair"), plural(rows - self._pairs.count, "single scored answer")
        yield self._needs(f"{pairs} and {single} make {plural(rows, 'row')}")
        rewards = f", or let rewards score them: {self._how_to_reward()}" if self._rewards_wait else ""
        yield f"rate {plural(self._options.min_samples - rows, 'more answer')}, by thumb, stars or score{rewards}"
