"""The rows that training sets hold, with nothing but the columns that TRL's trainers know: ``tools`` too, if any."""

from collections.abc import Iterator
from typing import ClassVar

from rl.base.errors import UsageError
from rl.dataset_builder.exporting import Column, ExportedRow, RowFormat
from rl.dataset_builder.read.groups import PromptRows
from rl.dataset_builder.read.ratings import DatabaseSource
from rl.dataset_builder.rows.judged import GroupRows, JudgedRows, LabelledRows, RewardRows
from rl.dataset_builder.rows.pairs import PairRows


def _columns(**own: Column) -> dict[str, Column]:
    return {"prompt": "messages", **own, "tools": "json"}


class _MethodRows(RowFormat):
    def rows(self) -> Iterator[ExportedRow]:
        for prompt_rows in self._prompts():
            for row in prompt_rows.rows:
                yield ExportedRow(prompt_rows.held_out, {name: row[name] for name in self.columns if name in row})

    def _prompts(self) -> Iterator[PromptRows]:
        raise NotImplementedError


class DPO(_MethodRows):
    columns = _columns(chosen="messages", rejected="messages")

    def _prompts(self) -> Iterator[PromptRows]:
        if self._filters.min_reward is not None:
            raise UsageError("--min-reward is about single answers: pairs come from what people said, not from rewards")
        return PairRows(self._agent, DatabaseSource(self._agent), self._filters.data, self._tally).prompts()


class _Judged(_MethodRows):
    builder: ClassVar[type[JudgedRows]]

    def _prompts(self) -> Iterator[PromptRows]:
        source = DatabaseSource(self._agent)
        return self.builder(self._agent, source, self._filters.data, self._tally, self._keeps).prompts()


class KTO(_Judged):
    builder = LabelledRows
    columns = _columns(completion="messages", label="true or false")


class GRPO(_Judged):
    builder = GroupRows
    columns = _columns(completions="lists of messages", rewards="numbers")


class Reward(_Judged):
    builder = RewardRows
    columns = _columns(completion="messages", reward="number")
