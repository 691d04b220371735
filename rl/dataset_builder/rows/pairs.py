"""DPO's."""

from collections.abc import Iterator, Mapping
from typing import Any

from rl.base.messages import asks_nothing
from rl.base.records import PreferencePair
from rl.data_formatter import build_fixture_dpo_pairs, build_preference_pairs, build_widget_dpo_pairs, training_row
from rl.data_formatter.opinions import NO_WIDGET
from rl.data_formatter.runs import answer_key
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
        fixtures = {} if self._options.pair_type == "preference" else self._source.fixtures()
        for group in self._source.groups(self._tally):
            if group.prompt and asks_nothing(group.prompt):
                self._tally.skipped[NO_WORDS] += 1
                continue
            pairs = self._pairs(group, fixtures)
            self._take_stock(group, pairs)
            if not pairs:
                continue
            split_key, members = group.split_key, _Members(group)
            for pair in pairs:
                row = {**self._row(pair, group), "split_key": split_key}
                row = row if self._source.has_ids else {**row, "feedback": []}
                yield PromptRows(self._split.is_held_out(split_key), [row], members.of(pair))

    def _pairs(self, group: PromptGroup, fixtures: Mapping[str, tuple[str, ...]]) -> list[PreferencePair]:
        """``fixtures``: widget to its variants."""
        kind, tally, pairs = self._options.pair_type, self._tally, list[PreferencePair]()
        bounds = {name: getattr(self._options, name) for name in ("max_pairs_per_question", "min_confidence")}
        limits: dict[str, Any] = {**bounds, "skipped": tally.skipped}
        if kind == "preference":
            return build_preference_pairs(group.answers, group.direct, **limits)
        how = {"wording": self._wording, **limits}
        if kind in ("widget", "both") and fixtures:
            pairs += build_widget_dpo_pairs(group.answers, [*fixtures], taken=tally.taken, **how)
        elif kind in ("widget", "both"):
            tally.skipped[NO_WIDGET] += len(group.answers)
        if kind in ("fixture", "both"):
            # The names say what they show; Command Center's files describe none.
            pairs += build_fixture_dpo_pairs(group.answers, {}, fixtures=fixtures, **how)
        if group.direct:
            tally.skipped[DIRECT] += len(group.direct)
        return pairs

    def _take_stock(self, group: PromptGroup, pairs: list[PreferencePair]) -> None:
        tally = self._tally
        tally.prompts_read += 1
        tally.prompts += bool(pairs)
        tally.disputed += sum(answer.is_disputed for answer in group.answers)
        tally.usable += len({number for pair in pairs for number in (pair.metadata or {}).get("feedback", ())})
        self._shortage.saw(group, len(pairs))

    def _row(self, pair: PreferencePair, group: PromptGroup) -> dict[str, Any]:  # noqa: ARG002  as others of its kind
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
        keys = (answer_key(pair.chosen, pair.chosen_steps or ()), answer_key(pair.rejected, pair.rejected_steps or ()))
        feedback = {*(pair.metadata or {}).get("feedback", ())}
        trace_ids = {trace_id for key, ids, trace_id in self._rated if key in keys or not feedback.isdisjoint(ids)}
        trace_ids |= {trace_id for key, trace_id in self._direct if key in keys}
        return trace_ids - {""}
