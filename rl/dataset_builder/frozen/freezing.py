"""Writes a TrainingSet."""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db import IntegrityError, connection, transaction

from rl.base.errors import NotEnoughData
from rl.base.files import publish_directory, remove
from rl.base.records import Report, silent
from rl.config import find_rows
from rl.data_formatter.answer_kinds import FREE, AnswerKind
from rl.dataset_builder.accepted_answers import FOLDS as FOLDED
from rl.dataset_builder.accepted_answers import IMITATED, KIND, OF_METHODS, TESTED, AcceptedAnswers
from rl.dataset_builder.capped import ROWS_A_LOOK, RowBuilder, build_rows
from rl.dataset_builder.frozen.files import FEEDBACK, HELD_OUT, MANIFEST, TRAIN, RowWriter, staging_folder
from rl.dataset_builder.frozen.folding import Tested, choose_tested, move_to_train
from rl.dataset_builder.frozen.marking import mark
from rl.dataset_builder.options import DataOptions
from rl.dataset_builder.read.groups import Source, Tally
from rl.dataset_builder.read.ratings import DatabaseSource
from rl.dataset_builder.read.scores import as_parameter, score_figures
from rl.dataset_builder.rows.tasks import TaskSource
from rl.models import Agent, TrainingSet

CHUNK = 4000
"""Rows a transaction, which takes a fraction of a second."""
_BYTES = 16
_ENROLL = {
    "sqlite": "INSERT OR IGNORE INTO rl_trainingsettrace (trace_id, training_set_id) SELECT value, %s FROM json_each(%s)",
    "postgresql": "INSERT INTO rl_trainingsettrace (trace_id, training_set_id) "
    "SELECT value, %s::uuid FROM unnest(%s::uuid[]) AS value ON CONFLICT DO NOTHING",
}


def freeze(
    agent: Agent,
    options: DataOptions,
    source: Source | None = None,
    *,
    method: str = "dpo",
    cross_fits: bool = False,
    report: Report = silent,
) -> TrainingSet:
    """Writes what the agent's answers and the feedback on them teach as rows that never change, and takes note that the
    feedback has been read. ``source``: files, which are not imported (no feedback in the database is touched), or tasks of
    an environment, which say themselves what is held out, instead of the database. ``method`` says which rows, as
    ``find_rows`` finds them. ``cross_fits``: the run answers tested prompts by an adapter that has not learned from them, so
    nothing is held out where answers have right ones.

    An equal set that exists already is returned instead. Its ``feedback_count`` is the number of current feedback items that
    took part in at least one row, train or held-out. All feedback that was read, used or not, stops waiting for the next
    run; what arrives meanwhile keeps waiting. The answers whose text is in a row become members of the set.
    ``report`` gets ``waiting`` now and then. Raises NotEnoughData, BadFile, UsageError for a method that the source has no
    rows for, or what ``report`` raises, and then leaves nothing behind."""
    if isinstance(source, TaskSource):
        options = replace(options, val_split=source.held_out_share)
    source, tally = source or DatabaseSource(agent, sessions=options.sessions), Tally()
    builder = build_rows(method, agent, source, options, tally, look=lambda: report("waiting", {}))
    identifier = uuid.uuid4()
    final = settings.DATA_DIR / "training_sets" / str(identifier)
    with staging_folder(final) as folder:
        written = _write_rows(folder, builder, tally, report)
        if method in OF_METHODS:
            written = _fold(agent, folder, written, options, cross_fits)
        frozen = _existing(agent, method, written.content_hash)
        if frozen is None:
            frozen = _new(identifier, agent, method, source, options, tally, written)
            _describe(folder, frozen, tally)
            frozen = _keep(folder, frozen)
        elif not frozen.directory.exists():  # somebody tidied up; these are the same bytes
            _describe(folder, frozen, tally)
            publish_directory(folder, frozen.directory)
    enroll(frozen, written.members)
    mark(frozen, tally.ids)
    return frozen


@dataclass(frozen=True, slots=True)
class _Written:
    train_rows: int
    heldout_rows: int
    content_hash: str
    members: Members
    accepted: AcceptedAnswers
    kind: AnswerKind = FREE
    tested: Tested = Tested()


def _write_rows(folder: Path, builder: RowBuilder, tally: Tally, report: Report) -> _Written:
    members, accepted = Members(), AcceptedAnswers()
    with (folder / TRAIN).open("wb") as train_file, (folder / HELD_OUT).open("wb") as heldout_file:
        train, held_out = RowWriter(train_file), RowWriter(heldout_file)
        for number, prompt_rows in enumerate(builder.prompts()):
            if number % ROWS_A_LOOK == 0:
                report("waiting", {})
            members.add(prompt_rows.trace_ids)
            for row in prompt_rows.rows:
                accepted.saw(row)
                (held_out if prompt_rows.held_out else train).write(row)
    if problem := builder.problem(train.rows, held_out.rows):
        raise NotEnoughData(problem)
    details = json.dumps(tally.details, sort_keys=True).encode() if tally.details else b""
    digest = hashlib.sha256(train.digest() + held_out.digest() + details).hexdigest()
    return _Written(train.rows, held_out.rows, digest, members, accepted)


def _fold(agent: Agent, folder: Path, written: _Written, options: DataOptions, cross_fits: bool) -> _Written:
    """With the kind of its answers; where they have right ones, nothing is held out and the run is cross-fitted."""
    kind = written.accepted.kind(agent.answer_kind)
    tested = choose_tested(agent, kind, options.val_split, folder) if cross_fits else Tested()
    if not tested.folds:
        return replace(written, kind=kind)
    moved = move_to_train(agent, folder)
    digest = hashlib.sha256(f"{written.content_hash} tested on {tested}".encode()).hexdigest()
    return replace(
        written,
        kind=kind,
        tested=tested,
        content_hash=digest,
        train_rows=written.train_rows + moved,
        heldout_rows=written.heldout_rows - moved,
    )


def _existing(agent: Agent, method: str, content_hash: str) -> TrainingSet | None:
    return TrainingSet.objects.filter(agent=agent, method=method, content_hash=content_hash).first()


def _new(
    identifier: uuid.UUID,
    agent: Agent,
    method: str,
    source: Source,
    options: DataOptions,
    tally: Tally,
    written: _Written,
) -> TrainingSet:
    tested, answers = written.tested, dict[str, Any]()
    if method in OF_METHODS:
        imitated = written.accepted.imitated_of(written.train_rows)
        answers = {KIND: written.kind.as_dict(), FOLDED: tested.folds, TESTED: list(tested.keys), IMITATED: imitated}
    return TrainingSet(
        id=identifier,
        agent=agent,
        method=method,
        pair_type=options.pair_type if find_rows(method).has_pair_types else "",
        source=source.name,
        content_hash=written.content_hash,
        train_rows=written.train_rows,
        heldout_rows=written.heldout_rows,
        feedback_count=tally.usable,
        val_split=0.0 if tested.folds else options.val_split,
        stats={
            "options": {name: value for name, value in asdict(options).items() if value != ()},
            **tally.as_dict(),
            "scores": score_figures(tally.ids),
            "held_out_is_empty": written.heldout_rows == 0,
            **answers,
        },
    )


def _describe(folder: Path, frozen: TrainingSet, tally: Tally) -> None:
    names = ("method", "source", "content_hash", "train_rows", "heldout_rows", "feedback_count")
    manifest = {"agent": frozen.agent.name, **{name: getattr(frozen, name) for name in names}, **frozen.stats}
    text = json.dumps(manifest, indent=2, ensure_ascii=False)
    (folder / MANIFEST).write_text(f"{text}\n", encoding="utf-8")
    with (folder / FEEDBACK).open("w", encoding="ascii") as file:  # in the order in which they were read
        file.writelines(f"{number}\n" for number in tally.ids)


def _keep(folder: Path, frozen: TrainingSet) -> TrainingSet:
    """The files come first: a folder without a row is litter, a row without its files is a lie."""
    publish_directory(folder, frozen.directory)
    try:
        with transaction.atomic():
            frozen.save(force_insert=True)
    except IntegrityError:  # somebody froze the same rows at the same time
        remove(frozen.directory)
        twin = _existing(frozen.agent, frozen.method, frozen.content_hash)
        if twin is None:
            raise
        return twin
    except BaseException:
        remove(frozen.directory)
        raise
    return frozen


class Members:
    """Ids of traces, 16 bytes each."""

    def __init__(self) -> None:
        self._ids = bytearray()

    def add(self, trace_ids: Iterable[str]) -> None:
        self._ids += bytes.fromhex("".join(trace_ids).replace("-", ""))

    def __len__(self) -> int:
        return len(self._ids) // _BYTES

    def chunks(self) -> Iterator[list[str]]:
        """Each id once, as 32 hexadecimal digits, in the order of the indexes, which are then filled from end to end."""
        import numpy as np  # the website does not load it at its start

        ids = np.frombuffer(self._ids, dtype=f"S{_BYTES}")
        ids.sort()  # in its place
        firsts = np.flatnonzero(np.append([True], ids[1:] != ids[:-1])[: len(ids)])
        for start in range(0, len(firsts), CHUNK):
            digits = ids[firsts[start : start + CHUNK]].tobytes().hex()
            yield [digits[at : at + 2 * _BYTES] for at in range(0, len(digits), 2 * _BYTES)]


def enroll(training_set: TrainingSet, members: Members) -> None:
    """Those that are members already stay so."""
    for ids in members.chunks():
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(_ENROLL[connection.vendor], [training_set.pk.hex, as_parameter(ids)])
