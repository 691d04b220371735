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
