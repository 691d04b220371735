"""The files of a training set, written beside their final place and moved there whole."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import time
from array import array
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from rl.errors import TrainingFailed
from rl.files import write_text

ABANDONED_SECONDS = 24 * 3600
"""A folder that is still partial after this long was left by a process that was killed."""
TRAIN, HELD_OUT, MANIFEST, FEEDBACK = "train.jsonl", "heldout.jsonl", "manifest.json", "feedback.ids"


class RowWriter:
    """Writes JSON lines, counts them and hashes their bytes."""

    def __init__(self, file: IO[bytes]) -> None:
        self.rows = 0
        self._hash = hashlib.sha256()
        self._file = file

    def write(self, row: dict[str, Any]) -> None:
        line = json.dumps(row, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
        self._file.write(line)
        self._hash.update(line)
        self.rows += 1

    def digest(self) -> bytes:
        return self._hash.digest()


@contextmanager
def staged(final: Path) -> Iterator[Path]:
    """Yields an empty folder; whoever wants to keep it calls ``publish``. Otherwise nothing of it is left.

    Raises TrainingFailed when the disk refuses.
    """
    partial = final.with_name(f".{final.name}.partial")
    try:
        partial.mkdir(parents=True)
        _remove_abandoned(final.parent)
        yield partial
    except OSError as error:
        raise TrainingFailed(
            f"the training set cannot be written to {final.parent}: {error.strerror or error}"
        ) from error
    finally:
        remove(partial)


def publish(partial: Path, final: Path) -> None:
    _flush(partial)
    partial.replace(final)
    _flush(final.parent)


def remove(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)


def _remove_abandoned(root: Path) -> None:
    oldest = time.time() - ABANDONED_SECONDS
    for partial in root.glob(".*.partial"):
        if partial.stat().st_mtime < oldest:
            remove(partial)


def write_manifest(folder: Path, manifest: dict[str, Any]) -> None:
    write_text(folder / MANIFEST, json.dumps(manifest, indent=2, ensure_ascii=False) + "\n")


def write_feedback_ids(folder: Path, ids: array[int]) -> None:
    """One id a line, in the order in which they were read."""
    write_text(folder / FEEDBACK, "".join(f"{number}\n" for number in ids))


def read_feedback_ids(folder: Path) -> array[int]:
    with (folder / FEEDBACK).open(encoding="ascii") as lines:
        return array("q", map(int, lines))


def _flush(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
