"""Rows of stored answers by their labels and rewards: for KTO, for GRPO, and for trainers elsewhere."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import groupby
from operator import attrgetter
from typing import Any

from rl.base.errors import UsageError
from rl.base.records import JudgedAnswer, Message
from rl.data_formatter.grouped import EQUAL_REWARDS, ONE_ANSWER, RewardGroup, merge_same_texts
from rl.data_formatter.labelled import LabelRule, labelled_row
from rl.data_formatter.opinions import EMPTY_ANSWER
from rl.data_formatter.scored import NO_REWARD, scored_row
from rl.data_formatter.wording.contract import Ask, Wording
from rl.dataset_builder.frozen.splitting import Split
from rl.dataset_builder.options import DataOptions
from rl.dataset_builder.plan.shortage import format_reasons, no_answers, plural
from rl.dataset_builder.read.groups import DIRECT, PromptRows, Source, Tally
from rl.dataset_builder.read.judged import Wanted, judged_answers
from rl.dataset_builder.wording import wording_of
from rl.models import Agent

Keep = Callable[[JudgedAnswer], bool]
FILES = "rows for {} come from the database: bring the files in with import_traces first"


HEARD = "what was heard in a next message: held-out rows are measured by what people said"


def label_rule(agent: Agent, min_confidence: float = 0.5, follow_up_weight: float = 0.0) -> LabelRule:
    return LabelRule(
        reward_threshold=agent.label_threshold,
        proposal_threshold=agent.auto_label_threshold,
        min_confidence=min_confidence,
        follow_up_weight=follow_up_weight,
    )


class JudgedRows:
    """Subclasses say what becomes of the answers to one prompt, and what is missing when it is too little."""

    method = ""

    def __init__(
        self,
        agent: Agent,
        source: Source,
        options: DataOptions,
        tally: Tally,
        keep: Keep = lambda _: True,
        follow_up_weight: float = 0.0,
    ) -> None:
        """``follow_up_weight``: what a next message weighs at most; 0: none is read."""
        if not source.has_ids:
            raise UsageError(FILES.format(self.method))
        self._agent, self._options, self._tally, self._keep = agent, options, tally, keep
        self._follow_up_weight = follow_up_weight
        self._split = Split(agent, options.val_split)
        self._as_asked = AsAsked(agent, source)

    def prompts(self) -> Iterator[PromptRows]:
        wanted = Wanted(
            proposals=self._agent.auto_label_threshold is not None,
            follow_ups=self._follow_up_weight > 0,
            widgets=self._as_asked.changes,
        )
        stored = judged_answers(self._agent, self._tally, wanted)
        answers = map(self._as_asked, filter(self._keep, merge_same_texts(stored, self._tally.skipped)))
        for _, of_one_prompt in groupby(answers, key=attrgetter("prompt_key")):
            self._tally.prompts_read += 1
            gave = False
            used: set[int] = set()
            for prompt_rows in self._rows(of_one_prompt):
                gave = True
                used.update(number for row in prompt_rows.rows for number in row["feedback"])
                yield prompt_rows
            self._tally.prompts += gave
            self._tally.usable += len(used)

    def problem(self, train: int, held_out: int) -> str:
        """Why these numbers of rows are too few to train on; empty when they are enough."""
        if train + held_out < self._options.min_samples:
            if missing := no_answers(self._agent, self._options):
                return missing
            sentences = list(self._too_few(train + held_out))
            if number := self._tally.skipped[EMPTY_ANSWER]:
                sentences.append(
                    f"{plural(number, 'answer')} {'is' if number == 1 else 'are'} empty: collect answers with text"
                )
            if self._tally.skipped:
                sentences.append(f"left out: {format_reasons(self._tally.skipped.most_common(5))}")
            return ". ".join(sentences)
        if not train:
            return (
                f"all {plural(held_out, 'row')} of {plural(self._tally.prompts, 'prompt')} are held out for testing, "
                "none is left to train on: answer other prompts, or lower the held-out share"
            )
        return ""

    def _rows(self, answers: Iterable[JudgedAnswer]) -> Iterator[PromptRows]:
        raise NotImplementedError

    def _too_few(self, rows: int) -> Iterator[str]:
        raise NotImplementedError

    def _needs(self, what: str) -> str:
        return f"{what}, and {self._options.min_samples:,} are needed"

    def _say_how_to_reward(self) -> Iterator[str]:
        if number := self._tally.skipped[NO_REWARD]:
            yield f"{plural(number, 'answer')} without a reward: {self._how_to_reward()}"
        elif not self._tally.prompts_read:
            yield f"no answer has a reward: {self._how_to_reward()}"

    @property
    def _rewards_wait(self) -> bool:
        return self._agent.traces.filter(reward_pending=True).exists()

    def _how_to_reward(self) -> str:
        if not self._rewards_wait:
            return "no reward applies: set the agent's answer format or reward weights, or rate answers"
        return f"'manage.py calculate_rewards --agent {self._agent.name}' computes them"


class LabelledRows(JudgedRows):
    """KTO: one row for each answer that is known to be good or bad."""

    method = "kto"

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._rule = label_rule(self._agent, self._options.min_confidence, self._follow_up_weight)
        self._train: Counter[bool] = Counter()

    def problem(self, train: int, held_out: int) -> str:
        if problem := super().problem(train, held_out):
            return problem
        if len(self._train) == 2:
            return ""
        [only] = self._train
        return (
            f"all {plural(train, 'labelled answer')} to train on {'is' if train == 1 else 'are'} "
            f"{'good' if only else 'bad'}, and {self.method.upper()} learns from the difference: "
            f"rate some {'bad answers down' if only else 'good answers up'}"
        )

    def _rows(self, answers: Iterable[JudgedAnswer]) -> Iterator[PromptRows]:
        for answer in answers:
            if answer.preferences:
                self._tally.skipped[DIRECT] += len(answer.preferences)
            values = [rating.value for rating in answer.ratings]
            self._tally.disputed += bool(values) and min(values) < 0.5 < max(values)
            if row := self._row(answer):
                held_out = self._split.is_held_out(answer.split_key)
                if held_out and row["label_source"] == "follow_up":
                    self._tally.skipped[HEARD] += 1
                    continue
                self._train.update([] if held_out else [self._is_good(row)])
                yield PromptRows(held_out, [row], frozenset(answer.trace_ids))

    def _row(self, answer: JudgedAnswer) -> dict[str, Any] | None:
        return labelled_row(answer, self._rule, self._tally.skipped)

    def _is_good(self, row: dict[str, Any]) -> bool:
        good: bool = row["label"]
        return good

    def _too_few(self, rows: int) -> Iterator[str]:
        missing = self._options.min_samples - rows
        yield self._needs(
            f"{plural(self._tally.read, 'rating')} of {plural(self._tally.prompts_read, 'prompt')} "
            f"and the rewards give {plural(rows, 'labelled answer')}"
        )
        rewards = f", or let rewards label them: {self._how_to_reward()}" if self._rewards_wait else ""
        yield f"rate {plural(missing, 'more answer')}, up or down{rewards}"


class RewardRows(JudgedRows):
    """For trainers elsewhere: one row for each answer with a reward. Our reward models have ``rows/reward_model.py``."""

    method = "reward"

    def _rows(self, answers: Iterable[JudgedAnswer]) -> Iterator[PromptRows]:
        for answer in answers:
            if row := scored_row(answer, self._tally.skipped):
                yield PromptRows(self._split.is_held_out(answer.split_key), [row], frozenset(answer.trace_ids))

    def _too_few(self, rows: int) -> Iterator[str]:
        yield self._needs(f"{plural(rows, 'answer')} {'has' if rows == 1 else 'have'} a reward")
        yield from self._say_how_to_reward()


class GroupRows(JudgedRows):
    """GRPO: one row for each prompt whose answers have rewards that differ."""

    method = "grpo"

    def _rows(self, answers: Iterable[JudgedAnswer]) -> Iterator[PromptRows]:
        groups: dict[str, RewardGroup] = {}  # an importer's own key may stand for prompts in other words
        for answer in answers:
            if answer.split_key not in groups:
                groups[answer.split_key] = RewardGroup(self._tally.skipped)
            groups[answer.split_key].take(answer)
        for split_key, group in groups.items():
            if finished := group.finish():
                yield PromptRows(self._split.is_held_out(split_key), [finished.row], finished.trace_ids)

    def _too_few(self, rows: int) -> Iterator[str]:
        yield self._needs(f"{plural(rows, 'prompt')} {'has' if rows == 1 else 'have'} answers whose rewards differ")
        if number := self._tally.skipped[ONE_ANSWER]:
            yield f"{plural(number, 'prompt')} with one rewarded answer: let the agent answer again"
        if number := self._tally.skipped[EQUAL_REWARDS]:
            equal = f"{plural(number, 'prompt')} whose answers have equal rewards, which teach nothing"
            yield f"{equal}: let the agent answer again"
        yield from self._say_how_to_reward()


class AsAsked:
    """A stored answer that chose a widget, as the agent is asked for it: which variant, among those there are. An agent that
    learns from whole answers gets every answer as it is."""

    def __init__(self, agent: Agent, source: Source) -> None:
        self.changes = agent.pair_type != Agent.PairType.PREFERENCE
        """Whether it needs to know what an answer chose."""
        self._wording: Wording | None = wording_of(agent) if self.changes else None
        self._fixtures: Mapping[str, tuple[str, ...]] = source.fixtures() if self.changes else {}

    def __call__(self, answer: JudgedAnswer) -> JudgedAnswer:
        """The key of the question stays: what is said of one question is not independent."""
        widget = answer.widget
        if self._wording is None or widget is None:
            return answer
        names = {*self._fixtures.get(widget.scenario, ()), widget.fixture}
        ask = Ask(widget, fixtures=dict.fromkeys(names, ""), data=[widget.data])
        prompt = self._wording.prompts.ask_for_fixture(ask)
        messages = [Message(role="user", content=prompt)] if isinstance(prompt, str) else prompt
        text = self._wording.answers.write_fixture(widget.fixture, ask)
        return replace(answer, prompt=tuple(messages), response=text)
