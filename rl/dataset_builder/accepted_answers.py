"""The answers of rows that people accept, by which the kind of an agent's answers is told."""

from collections.abc import Mapping, Sequence
from typing import Any

from rl.base.records import Choosing
from rl.collect.feedback.kept_answers import choosing_for, schema_for
from rl.config.automatic import AnswerTraits
from rl.data_formatter import read_training_rows
from rl.data_formatter.answer_kinds import FIRST, FREE, AnswerKind, find_kind
from rl.dataset_builder.frozen.files import TRAIN
from rl.models import TrainingSet

KIND, FOLDS, TESTED, IMITATED = "answer_kind", "folds", "tested", "imitated"
"""What is told of them in the figures of a training set."""
OF_METHODS = ("mpo", "sft")
"""Rows that say which answers are accepted."""


class AcceptedAnswers:
    """The first of them, row by row."""

    def __init__(self) -> None:
        self.count = 0
        """Rows with an accepted answer, also runs with tools."""
        self._texts: list[str] = []
        self._rows, self._distinct = 0, set[int]()

    def imitated_of(self, rows: int) -> int:
        """How many of so many rows imitation learns from: accepted ones, each text once. All where there are FIRST."""
        few = len(self._distinct) < FIRST
        return round(rows * len(self._distinct) / max(1, self._rows)) if few else rows

    def saw(self, row: Mapping[str, Any]) -> None:
        self.count += bool(row.get("chosen"))
        self._rows += 1
        if row.get("chosen") and len(self._distinct) < FIRST:
            self._distinct.add(hash(f"{row['prompt']} {row['chosen']}"))
        if len(self._texts) < FIRST and (text := accepted_text(row)):
            self._texts.append(text)

    def kind(self, declared: str) -> AnswerKind:
        return find_kind(self._texts, declared)


def accepted_text(row: Mapping[str, Any]) -> str:
    """Empty where nothing is accepted, where only a next message says so, and for a run with tools, which is more than a
    text."""
    heard = row.get("label_source") == "follow_up"
    chosen: Sequence[Mapping[str, Any]] = () if heard else row.get("chosen") or ()
    return str(chosen[0].get("content") or "").strip() if len(chosen) == 1 else ""


def kind_of(training_set: TrainingSet) -> AnswerKind:
    stored = training_set.stats.get(KIND)
    return AnswerKind.from_dict(stored) if stored else FREE


def folds_of(training_set: TrainingSet) -> int:
    """0: its held-out rows are to measure by."""
    return int(training_set.stats.get(FOLDS, 0))


def tested_of(training_set: TrainingSet) -> tuple[str, ...]:
    """Keys of the prompts that a cross-fitted run is tested on."""
    return tuple(training_set.stats.get(TESTED, ()))


def choosing_of(training_set: TrainingSet) -> Choosing | None:
    """How its tested prompts are answered, where that is from a closed set and the run is cross-fitted."""
    if not folds_of(training_set) or kind_of(training_set).kind != "closed":
        return None
    rows = read_training_rows(training_set.directory / TRAIN, training_set.method)
    return choosing_for(training_set.agent, rows)


def schema_of(training_set: TrainingSet) -> Mapping[str, Any] | None:
    """That the answers to its tested prompts keep to, where the run is cross-fitted."""
    is_asked = folds_of(training_set) and kind_of(training_set).kind == "structured"
    return schema_for(training_set.agent) if is_asked else None


def for_choosing(kind: AnswerKind, rows: int = 0) -> AnswerTraits:
    return AnswerTraits(kind.kind, len(kind.values), kind.reason, rows)
