"""The files of a training set, written beside their final place and moved there whole."""

from __future__ import annotations

import hashlib
import json
from array import array
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from rl.base.errors import TrainingFailed
from rl.base.files import scratch_directory
from rl.dataset_builder.frozen.lines import Lines

TRAIN, HELD_OUT, MANIFEST, FEEDBACK = "train.jsonl", "heldout.jsonl", "manifest.json", "feedback.ids"


class RowWriter:
    """Writes JSON lines, counts them and hashes what they teach: the numbers of ratings are the database's own, and the same
    rows have the same hash whatever other ratings there were."""

    def __init__(self, file: IO[bytes]) -> None:
        self.rows = 0
        self._hash = hashlib.sha256()
        self._file = file
        self._lines = Lines()

    def write(self, row: dict[str, Any]) -> None:
        line, without_numbers = self._lines.encode(row)
        self._file.write(line)
        self._hash.update(without_numbers)
        self.rows += 1

    def digest(self) -> bytes:
        return self._hash.digest()


@contextmanager
def staging_folder(final: Path) -> Iterator[Path]:
    """Yields an empty folder; whoever wants to keep it publishes it. Otherwise nothing of it is left.

    Raises TrainingFailed when the disk refuses.
    """
    try:
        final.parent.mkdir(parents=True, exist_ok=True)
        with scratch_directory(final) as partial:
            yield partial
    except OSError as error:
        raise TrainingFailed(
            f"the training set cannot be written to {final.parent}: {error.strerror or error}"
        ) from error


def write_manifest(folder: Path, manifest: dict[str, Any]) -> None:
    text = json.dumps(manifest, indent=2, ensure_ascii=False)
    (folder / MANIFEST).write_text(f"{text}\n", encoding="utf-8")


def write_feedback_ids(folder: Path, ids: array[int]) -> None:
    """One id a line, in the order in which they were read."""
    with (folder / FEEDBACK).open("w", encoding="ascii") as file:
        file.writelines(f"{number}\n" for number in ids)


def read_feedback_ids(folder: Path) -> array[int]:
    with (folder / FEEDBACK).open(encoding="ascii") as lines:
        return array("q", map(int, lines))
