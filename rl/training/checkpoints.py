"""Checkpoints on disk: which of them are whole, and which stay. Needs no torch."""

from __future__ import annotations

import json
import re
import shutil
import struct
from pathlib import Path

from rl.training.model_path import ADAPTER_CONFIG, ADAPTER_WEIGHTS

KEPT = 2
"""The newest is what a resume uses; the one before it is there for a disk that lies."""

_NAME = re.compile(r"checkpoint-(\d+)")
_STATE = "trainer_state.json"
_FILES = (ADAPTER_WEIGHTS, ADAPTER_CONFIG, "optimizer.pt", "scheduler.pt", _STATE)


def newest_complete(output_dir: Path) -> Path | None:
    """The checkpoint to go on from, or None when there is no whole one."""
    return next((path for path in _newest_first(output_dir) if is_complete(path)), None)


def is_complete(path: Path) -> bool:
    """Whether a training can go on from here with the same numbers.

    Transformers silently continues without the optimiser, the schedule or the random numbers when their files are
    missing, so each must be there.
    """
    return (
        all((path / name).is_file() and (path / name).stat().st_size for name in _FILES)
        and any(path.glob("rng_state*.pth"))
        and _is_whole_json(path / _STATE)
        and _is_whole_safetensors(path / ADAPTER_WEIGHTS)
    )


def remove_incomplete(output_dir: Path) -> None:
    for path in _newest_first(output_dir):
        if not is_complete(path):
            shutil.rmtree(path)


def remove_old(output_dir: Path, keep: int = KEPT) -> None:
    """Removes all but the ``keep`` newest."""
    for path in _newest_first(output_dir)[keep:]:
        shutil.rmtree(path)


def _newest_first(output_dir: Path) -> list[Path]:
    numbered = [
        (int(match[1]), path) for path in output_dir.glob("checkpoint-*") if (match := _NAME.fullmatch(path.name))
    ]
    return [path for _, path in sorted(numbered, reverse=True)]


def _is_whole_json(path: Path) -> bool:
    try:
        return isinstance(json.loads(path.read_text(encoding="utf-8")).get("global_step"), int)
    except (ValueError, AttributeError):
        return False


def _is_whole_safetensors(path: Path) -> bool:
    """Compares the file's size with what its header promises: 8 bytes of length, JSON, then the tensors."""
    try:
        with path.open("rb") as file:
            (header_bytes,) = struct.unpack("<Q", file.read(8))
            header = json.loads(file.read(min(header_bytes, path.stat().st_size)))
        end = max((tensor["data_offsets"][1] for name, tensor in header.items() if name != "__metadata__"), default=0)
        return path.stat().st_size == 8 + header_bytes + end
    except (struct.error, ValueError, KeyError, TypeError, AttributeError):
        return False
