"""Answers worth imitating, for supervised fine-tuning: all that are not known to be bad, edited ones as they were edited.

Who edits an answer says that it should not be imitated as it was, whatever others think of it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from rl.base.records import JudgedAnswer
from rl.data_formatter.grouped import merge_same_texts
from rl.data_formatter.labelled import LabelRule, label_of
from rl.data_formatter.opinions import BROKEN_OFF, EMPTY_ANSWER
from rl.dataset_builder.exporting.base import ExportedRow, RowFormat
from rl.dataset_builder.read.judged import Wanted, judged_answers
from rl.dataset_builder.rows.judged import label_rule

BAD = "labelled bad"


class ImitatedRows(RowFormat):
    def rows(self) -> Iterator[ExportedRow]:
        proposals = self._agent.auto_label_threshold is not None
        wanted = Wanted(everything=True, proposals=proposals)
        rule = label_rule(self._agent)
        stored = judged_answers(self._agent, self._tally, wanted)
        for answer in filter(self._keeps, merge_same_texts(stored, self._tally.skipped)):
            for text in answer.corrections or self._own_text(answer, rule):
                yield self._row(answer.split_key, self._values(answer, text))

    def _values(self, answer: JudgedAnswer, text: str) -> dict[str, Any]:
        """``text``: what the agent should have answered."""
        raise NotImplementedError

    def _own_text(self, answer: JudgedAnswer, rule: LabelRule) -> tuple[str, ...]:
        """Empty: left out, and counted."""
        if not answer.response.strip():
            self._tally.skipped[EMPTY_ANSWER] += 1
            return ()
        if answer.is_broken_off:
            self._tally.skipped[BROKEN_OFF] += 1
            return ()
        label = label_of(answer, rule, Counter())
        if label and not label.good:
            self._tally.skipped[BAD] += 1
            return ()
        return (answer.response,)
