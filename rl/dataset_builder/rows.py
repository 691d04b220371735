"""The files of a training set, written beside their final place and moved there whole."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from array import array
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

from rl.errors import TrainingFailed

TRAIN, HELD_OUT, MANIFEST, FEEDBACK = "train.jsonl", "heldout.jsonl", "manifest.json", "feedback.ids"


class RowFile:
    """A JSONL file under construction; on disk, to the last byte, after a normal exit."""

    def __init__(self, path: Path) -> None:
        self.rows = 0
        self._hash = hashlib.sha256()
        self._file = path.open("wb")

    def write(self, row: dict[str, Any]) -> None:
        line = json.dumps(row, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
        self._file.write(line)
        self._hash.update(line)
        self.rows += 1

    def digest(self) -> bytes:
        return self._hash.digest()

    def __enter__(self) -> RowFile:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        try:
            self._file.flush()
            os.fsync(self._file.fileno())
        finally:
            self._file.close()


@contextmanager
def staged(final: Path) -> Iterator[Path]:
    """Yields an empty folder; whoever wants to keep it calls ``publish``. Otherwise nothing of it is left.

    Raises TrainingFailed when the disk refuses.
    """
    partial = final.with_name(f".{final.name}.partial")
    try:
        partial.mkdir(parents=True)
        yield partial
    except OSError as error:
        raise TrainingFailed(f"the training set cannot be written to {final.parent}: {error.strerror or error}") from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def publish(partial: Path, final: Path) -> None:
    _flush(partial)
    partial.replace(final)
    _flush(final.parent)


def write_manifest(folder: Path, manifest: dict[str, Any]) -> None:
    _write(folder / MANIFEST, (json.dumps(manifest, indent=2, ensure_ascii=False) + "\n").encode())


def write_feedback_ids(folder: Path, ids: array[int]) -> None:
    """One id a line, in the order in which they were read."""
    _write(folder / FEEDBACK, "".join(f"{number}\n" for number in ids).encode())


def read_feedback_ids(folder: Path) -> array[int]:
    with (folder / FEEDBACK).open(encoding="ascii") as lines:
        return array("q", map(int, lines))


def _write(path: Path, content: bytes) -> None:
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _flush(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
