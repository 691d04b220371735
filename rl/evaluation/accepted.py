"""Prompts with the answers that people accept, which none of the compared versions has learned from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from rl.base.records import GeneratedAnswer
from rl.data_formatter import read_training_rows
from rl.data_formatter.answer_kinds import AnswerKind
from rl.data_formatter.opinions import stable_hash
from rl.data_formatter.unseen import UNSEEN, read_unseen
from rl.dataset_builder.accepted_answers import accepted_text, folds_of, kind_of
from rl.dataset_builder.frozen.files import HELD_OUT, TRAIN
from rl.dataset_builder.frozen.folding import learned_keys
from rl.models import ModelVersion, TrainingRun, TrainingSet

Row = Mapping[str, Any]
MOST_PROMPTS = 200
"""Generating takes long; more prompts are thinned out by a hash."""


@dataclass(frozen=True, slots=True)
class Accepted:
    kind: AnswerKind
    rows: list[Row]
    """One of each prompt, in an order that has nothing to do with what they say; ``accepted``: its right answers."""
    learned: int
    """Prompts that were left out, because a version has learned from them."""
    unseen: Mapping[str, GeneratedAnswer] = field(default_factory=dict)
    """By prompt of a cross-fitted version: what an adapter answered that was trained like it on other prompts."""


def accepted_answers(training_set: TrainingSet, run: TrainingRun | None, *compared: ModelVersion | None) -> Accepted:
    """``run``: that made the version; of a cross-fitted set its own is measured by what it left. ``compared``: the
    others."""
    kind, folds = kind_of(training_set), folds_of(training_set)
    own = run is not None and run.training_set_id == training_set.pk
    unseen = read_unseen(run.directory / UNSEEN) if folds and own and run else {}
    if not kind.has_right_answers or (folds and not unseen):
        return Accepted(kind, [], 0)
    by_prompt: dict[str, dict[str, Any]] = {}
    for name, row in _rows(training_set, folds > 0):
        if name == HELD_OUT or row["prompt_key"] in unseen:
            asked = by_prompt.setdefault(row["prompt_key"], {**row, "accepted": []})
            asked["accepted"].append(accepted_text(row))
    keys = {row["split_key"] for row in by_prompt.values()}
    learned = set().union(*(learned_keys(version, keys) for version in compared))
    rows: list[Row] = [row for row in by_prompt.values() if row["split_key"] not in learned]
    rows.sort(key=lambda row: stable_hash(row["prompt_key"]))
    return Accepted(kind, rows[:MOST_PROMPTS], len(by_prompt) - len(rows), unseen)


def _rows(training_set: TrainingSet, folded: bool) -> Iterator[tuple[str, dict[str, Any]]]:
    """Held-out ones, and of a cross-fitted set those that were trained on besides."""
    for name in (HELD_OUT, TRAIN) if folded else (HELD_OUT,):
        file = training_set.directory / name
        yield from ((name, row) for row in read_training_rows(file, training_set.method) if accepted_text(row))
