"""DPO's."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypedDict

from rl.base.messages import asks_nothing
from rl.base.records import PreferencePair
from rl.data_formatter import build_fixture_dpo_pairs, build_preference_pairs, build_widget_dpo_pairs, training_row
from rl.data_formatter.opinions import NO_WIDGET
from rl.data_formatter.runs import answer_key
from rl.data_formatter.wording.contract import Wording
from rl.dataset_builder.frozen.splitting import Split
from rl.dataset_builder.options import DataOptions
from rl.dataset_builder.plan.shortage import Shortage, no_answers
from rl.dataset_builder.read.groups import DIRECT, NO_WORDS, PromptGroup, PromptRows, Source, Tally
from rl.dataset_builder.wording import wording_of
from rl.models import Agent


class PairRows:
    """DPO: pairs of a better and a worse answer."""

    def __init__(self, agent: Agent, source: Source, options: DataOptions, tally: Tally) -> None:
        self._agent, self._source, self._options, self._tally = agent, source, options, tally
        self._shortage = Shortage(options)
        self._split = Split(agent, options.val_split)
        self._wording = wording_of(agent)

    def prompts(self) -> Iterator[PromptRows]:
        for group, pairs in paired_groups(self._source, self._options, self._wording, self._tally):
            self._shortage.saw(group, len(pairs))
            if pairs:
                split_key = group.split_key
                held_out, members = self._split.is_held_out(split_key), _Members(group)
                rows = [{**self._row(pair, group), "split_key": split_key} for pair in pairs]
                if not self._source.has_ids:
                    rows = [{**row, "feedback": []} for row in rows]
                for row, pair in zip(rows, pairs, strict=True):
                    yield PromptRows(held_out, [row], members.of(pair))

    def _row(self, pair: PreferencePair, group: PromptGroup) -> dict[str, Any]:
        return training_row(pair)

    def problem(self, train: int, held_out: int) -> str:
        problem = self._shortage.problem(train, held_out, self._tally)
        missing = no_answers(self._agent, self._options) if problem and self._source.has_ids else ""
        return missing or problem


class _Members:
    """Those of a prompt's answers that are in a pair, or whose ratings chose the widgets that its text names."""

    def __init__(self, group: PromptGroup) -> None:
        self._rated = [(answer_key(a.response, a.steps), a.feedback_ids, a.trace_id) for a in group.answers]
        self._direct = [
            (answer_key(text, steps), trace_id)
            for direct in group.direct
            for text, steps, trace_id in (
                (direct.chosen, direct.chosen_steps, direct.chosen_trace),
                (direct.rejected, direct.rejected_steps, direct.rejected_trace),
            )
        ]

    def of(self, pair: PreferencePair) -> set[str]:
        """Ids of traces."""
        keys = (answer_key(pair.chosen, pair.chosen_steps or ()), answer_key(pair.rejected, pair.rejected_steps or ()))
        feedback = {*(pair.metadata or {}).get("feedback", ())}
        trace_ids = {trace_id for key, ids, trace_id in self._rated if key in keys or not feedback.isdisjoint(ids)}
        trace_ids |= {trace_id for key, trace_id in self._direct if key in keys}
        return trace_ids - {""}


class _Limits(TypedDict):
    """What every builder of pairs is told."""

    max_pairs_per_question: int
    min_confidence: float
    skipped: Counter[str]


@dataclass(frozen=True, slots=True)
class _Choices:
    """What there is to choose among, and how that is put and answered."""

    fixtures: Mapping[str, tuple[str, ...]]
    """Widget to its variants."""
    wording: Wording


Builder = Callable[[PromptGroup, _Choices, _Limits, Tally], list[PreferencePair]]


def paired_groups(
    source: Source, options: DataOptions, wording: Wording, tally: Tally
) -> Iterator[tuple[PromptGroup, list[PreferencePair]]]:
    """Every prompt of the source with its pairs, which may be none."""
    builders = _BUILDERS[options.pair_type]
    choices = _Choices({} if options.pair_type == "preference" else source.fixtures(), wording)
    limits = _Limits(
        max_pairs_per_question=options.max_pairs_per_question,
        min_confidence=options.min_confidence,
        skipped=tally.skipped,
    )
    for group in source.groups(tally):
        if group.prompt and asks_nothing(group.prompt):
            tally.skipped[NO_WORDS] += 1
            continue
        pairs = [pair for build in builders for pair in build(group, choices, limits, tally)]
        if options.pair_type != "preference" and group.direct:
            tally.skipped[DIRECT] += len(group.direct)
        _take_stock(group, pairs, tally)
        yield group, pairs


def _take_stock(group: PromptGroup, pairs: list[PreferencePair], tally: Tally) -> None:
    tally.prompts_read += 1
    tally.prompts += bool(pairs)
    tally.disputed += sum(answer.is_disputed for answer in group.answers)
    tally.usable += len({number for pair in pairs for number in (pair.metadata or {}).get("feedback", ())})


def _widget(group: PromptGroup, choices: _Choices, limits: _Limits, tally: Tally) -> list[PreferencePair]:
    if not choices.fixtures:
        limits["skipped"][NO_WIDGET] += len(group.answers)
        return []
    return build_widget_dpo_pairs(
        group.answers, [*choices.fixtures], wording=choices.wording, taken=tally.taken, **limits
    )


def _fixture(group: PromptGroup, choices: _Choices, limits: _Limits, tally: Tally) -> list[PreferencePair]:
    # The names say what they show; Command Center's files describe none.
    return build_fixture_dpo_pairs(group.answers, {}, fixtures=choices.fixtures, wording=choices.wording, **limits)


def _preference(group: PromptGroup, choices: _Choices, limits: _Limits, tally: Tally) -> list[PreferencePair]:
    return build_preference_pairs(group.answers, group.direct, **limits)


_BUILDERS: dict[str, tuple[Builder, ...]] = {
    "widget": (_widget,),
    "fixture": (_fixture,),
    "preference": (_preference,),
    "both": (_widget, _fixture),
}
