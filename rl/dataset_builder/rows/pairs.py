"""DPO's."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rl.base.records import PreferencePair
from rl.data_formatter import training_row
from rl.data_formatter.runs import answer_key
from rl.dataset_builder.frozen.splitting import Split
from rl.dataset_builder.options import DataOptions
from rl.dataset_builder.pair_builders import paired_groups
from rl.dataset_builder.plan.shortage import Shortage, no_answers
from rl.dataset_builder.read.groups import PromptGroup, PromptRows, Source, Tally
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
                held_out = self._split.is_held_out(group.split_key)
                rows = [{**self._row(pair, group), "split_key": group.split_key} for pair in pairs]
                if not self._source.has_ids:
                    rows = [{**row, "feedback": []} for row in rows]
                for row, pair in zip(rows, pairs, strict=True):
                    yield PromptRows(held_out, [row], _members(group, [pair]))

    def _row(self, pair: PreferencePair, group: PromptGroup) -> dict[str, Any]:
        return training_row(pair)

    def problem(self, train: int, held_out: int) -> str:
        problem = self._shortage.problem(train, held_out, self._tally)
        missing = no_answers(self._agent, self._options) if problem and self._source.has_ids else ""
        return missing or problem


def _members(group: PromptGroup, pairs: list[PreferencePair]) -> set[str]:
    """Answers that are in a pair, or whose ratings chose the widgets that its text names."""
    keys = {answer_key(pair.chosen, pair.chosen_steps or ()) for pair in pairs}
    keys |= {answer_key(pair.rejected, pair.rejected_steps or ()) for pair in pairs}
    feedback = {number for pair in pairs for number in (pair.metadata or {}).get("feedback", ())}
    trace_ids = {
        answer.trace_id
        for answer in group.answers
        if answer_key(answer.response, answer.steps) in keys or not feedback.isdisjoint(answer.feedback_ids)
    }
    for preference in group.direct:
        chosen = answer_key(preference.chosen, preference.chosen_steps)
        rejected = answer_key(preference.rejected, preference.rejected_steps)
        trace_ids |= {preference.chosen_trace} if chosen in keys else set()
        trace_ids |= {preference.rejected_trace} if rejected in keys else set()
    return trace_ids - {""}
