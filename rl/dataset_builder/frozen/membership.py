"""Which answers are in a training set."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from django.db import connection, transaction

from rl.dataset_builder.id_lists import as_parameter
from rl.models import TrainingSet

CHUNK = 4000
"""Rows a transaction, which takes a fraction of a second."""
_BYTES = 16
_ENROLL = {
    "sqlite": "INSERT OR IGNORE INTO rl_trainingsettrace (trace_id, training_set_id) SELECT value, %s FROM json_each(%s)",
    "postgresql": "INSERT INTO rl_trainingsettrace (trace_id, training_set_id) "
    "SELECT value, %s::uuid FROM unnest(%s::uuid[]) AS value ON CONFLICT DO NOTHING",
}


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
