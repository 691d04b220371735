"""Prompts with the answers that people accept, which none of the compared versions has learned from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from rl.base.records import GeneratedAnswer
from rl.data_formatter import read_training_rows
from rl.data_formatter.answer_kinds import AnswerKind
from rl.data_formatter.jsonl import UNSEEN, read_unseen
from rl.data_formatter.opinions import stable_hash
from rl.dataset_builder import DataOptions
from rl.dataset_builder.accepted_answers import accepted_text, folds_of, kind_of
from rl.dataset_builder.capped import build_rows
from rl.dataset_builder.frozen.files import HELD_OUT, TRAIN
from rl.dataset_builder.frozen.folding import learned_keys
from rl.dataset_builder.read.groups import Tally
from rl.dataset_builder.read.ratings import DatabaseSource
from rl.models import ModelVersion, TrainingRun, TrainingSet

Row = Mapping[str, Any]
MOST_PROMPTS = 200
"""Generating takes long; more prompts are thinned out by a hash."""


@dataclass(frozen=True, slots=True)
class Accepted:
    kind: AnswerKind
    rows: list[Row]
    """One of each prompt, in an order that has nothing to do with what they say; ``accepted``: its right answers."""
    learned: int = 0
    """Prompts that were left out, because a version has learned from them."""
    later: int = 0
    """Prompts among the rows that nobody had corrected or liked when the version was trained."""
    unseen: Mapping[str, GeneratedAnswer] = field(default_factory=dict)
    """By prompt of a cross-fitted version: what an adapter answered that was trained like it on other prompts."""


def accepted_answers(training_set: TrainingSet, run: TrainingRun | None, *compared: ModelVersion | None) -> Accepted:
    """Those that the set holds out, and those that people have accepted since. ``run``: that made the version; of a
    cross-fitted set its own is measured by what it left. ``compared``: the others."""
    kind, folds = kind_of(training_set), folds_of(training_set)
    if not kind.has_right_answers:
        return Accepted(kind, [])
    own = run is not None and run.training_set_id == training_set.pk
    unseen = read_unseen(run.directory / UNSEEN) if folds and own and run else {}
    stored = _by_prompt(_read_stored(training_set, unseen))
    tested = _without_learned(stored, *compared)
    since = _by_prompt(row for row in _accepted_now(training_set) if row["prompt_key"] not in stored) if run else {}
    later = _without_learned(since, run.version, *compared) if run else []
    rows = sorted([*tested, *later], key=lambda row: stable_hash(row["prompt_key"]))[:MOST_PROMPTS]
    asked = sum(row["prompt_key"] in since for row in rows)
    return Accepted(kind, rows, len(stored) - len(tested), asked, unseen)


def _by_prompt(rows: Iterable[Row]) -> dict[str, Row]:
    by_prompt: dict[str, dict[str, Any]] = {}
    for row in rows:
        asked = by_prompt.setdefault(row["prompt_key"], {**row, "accepted": []})
        asked["accepted"].append(accepted_text(row))
    return dict(by_prompt)


def _without_learned(by_prompt: Mapping[str, Row], *versions: ModelVersion | None) -> list[Row]:
    keys = {row["split_key"] for row in by_prompt.values()}
    learned = set().union(*(learned_keys(version, keys) for version in versions))
    return [row for row in by_prompt.values() if row["split_key"] not in learned]


def _read_stored(training_set: TrainingSet, unseen: Mapping[str, GeneratedAnswer]) -> Iterator[Row]:
    """Held-out ones, and those that were trained on where an adapter answered that had not learned from them."""
    for name in (HELD_OUT, TRAIN) if unseen else (HELD_OUT,):
        for row in read_training_rows(training_set.directory / name, training_set.method):
            if accepted_text(row) and (name == HELD_OUT or row["prompt_key"] in unseen):
                yield row


def _accepted_now(training_set: TrainingSet) -> Iterator[Row]:
    """As the set would be written now. Reads all feedback of the agent."""
    options, source = DataOptions(**training_set.stats.get("options", {})), DatabaseSource(training_set.agent)
    if training_set.source == source.name:
        for of_prompt in build_rows(training_set.method, training_set.agent, source, options, Tally()).prompts():
            yield from filter(accepted_text, of_prompt.rows)
