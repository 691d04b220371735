"""Which answers are in a training set."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from uuid import UUID

from django.db import transaction

from rl.models import TrainingSet, TrainingSetTrace

CHUNK = 4000
"""Rows a transaction, which takes a fraction of a second."""
_BYTES = 16


class Members:
    """Ids of traces, 16 bytes each."""

    def __init__(self) -> None:
        self._ids = bytearray()

    def add(self, trace_ids: Iterable[str]) -> None:
        for trace_id in sorted(trace_ids):
            self._ids += UUID(trace_id).bytes

    def __len__(self) -> int:
        return len(self._ids) // _BYTES

    def chunks(self) -> Iterator[list[UUID]]:
        step = CHUNK * _BYTES
        for start in range(0, len(self._ids), step):
            part = bytes(self._ids[start : start + step])
            yield [UUID(bytes=part[at : at + _BYTES]) for at in range(0, len(part), _BYTES)]


def enroll(training_set: TrainingSet, members: Members) -> None:
    """Those that are members already stay so."""
    for ids in members.chunks():
        rows = [TrainingSetTrace(training_set=training_set, trace_id=pk) for pk in ids]
        with transaction.atomic():
            TrainingSetTrace.objects.bulk_create(rows, ignore_conflicts=True)
