"""Checkpoints on disk: which of them are whole, and which stay. Needs no torch."""

import json
import re
import shutil
import struct
from pathlib import Path

from rl.lm.model_path import ADAPTER_CONFIG, ADAPTER_WEIGHTS, MODEL_CONFIG, is_adapter, weight_files

KEPT = 2
"""The newest is what a resume uses; the one before it is there for a disk that lies."""

WARM_UP = "warm-up"
"""The folder of what a method starts from, where good answers are imitated first."""
PASSES = "passes"
_STATES = "kept-states"
_NAME = re.compile(r"checkpoint-(\d+)")
STATE = "trainer_state.json"
FILES_KEY = "files"
"""In the state of a training that is not the transformers trainer's: what else its checkpoints are made of."""
_OPTIMIZERS = ("optimizer.pt", "optimizer.bin", "optimizer_0/.metadata", "latest")
"""Any of them: of one whole model, of FSDP with whole or with cut states, of DeepSpeed."""
_CUT_WEIGHTS = "pytorch_model_fsdp_0/.metadata"
_OF_THE_TRAINER = ("scheduler.pt",)


def newest_complete(output_dir: Path) -> Path | None:
    """The checkpoint to go on from, or None when there is no whole one."""
    return next((path for path in _newest_first(output_dir) if is_complete(path)), None)


def is_complete(path: Path) -> bool:
    """Whether a training can go on from here with the same numbers. Transformers silently continues without the optimiser,
    the schedule or the random numbers when their files are missing, so each must be there."""
    try:
        state = json.loads((path / STATE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    if not isinstance(state, dict) or not isinstance(state.get("global_step"), int):
        return False
    if FILES_KEY not in state and not any(path.glob("rng_state*.pth")):
        return False
    needed = (*_weights(path), *state.get(FILES_KEY, _OF_THE_TRAINER))
    return all(_is_whole(path / name) for name in needed) and any(_is_whole(path / name) for name in _OPTIMIZERS)


def remove_incomplete(output_dir: Path) -> None:
    for path in _newest_first(output_dir):
        if not is_complete(path):
            shutil.rmtree(path)


def remove_old(output_dir: Path, keep: int = KEPT) -> None:
    """Removes all but the ``keep`` newest."""
    for path in _newest_first(output_dir)[keep:]:
        shutil.rmtree(path)


def remove_all(output_dir: Path) -> None:
    """Removes what only going on with a training would need, once it is over."""
    remove_old(output_dir, keep=0)
    remove_states(output_dir)
    shutil.rmtree(output_dir / WARM_UP, ignore_errors=True)


def pass_folder(directory: Path, step: int) -> Path:
    """Names the folder of the weights that a training had at the end of a pass, before its last."""
    return directory / PASSES / str(step)


def list_passes(directory: Path) -> list[int]:
    """Their steps, in order."""
    return sorted(int(path.name) for path in (directory / PASSES).glob("*") if path.name.isdecimal())


def remove_old_passes(directory: Path, keep: int) -> None:
    for step in list_passes(directory)[:-keep]:
        shutil.rmtree(pass_folder(directory, step))


def states_file(output_dir: Path, rank: int) -> Path:
    """Where a process keeps what the layers below the lowest adapter gave."""
    return output_dir / f"{_STATES}-{rank}"


def remove_states(output_dir: Path) -> None:
    for path in output_dir.glob(f"{_STATES}-*"):
        path.unlink()


def _weights(path: Path) -> list[str]:
    """What the weights are made of: an adapter's files, those of a whole model, or FSDP's parts of either."""
    if (path / _CUT_WEIGHTS).is_file():
        return [_CUT_WEIGHTS]
    if is_adapter(path) or not (path / MODEL_CONFIG).is_file():
        return [ADAPTER_CONFIG, ADAPTER_WEIGHTS]
    try:
        return [MODEL_CONFIG, *weight_files(path)]
    except ValueError:
        return [ADAPTER_CONFIG]  # which is not there


def _newest_first(output_dir: Path) -> list[Path]:
    numbered = [
        (int(match[1]), path) for path in output_dir.glob("checkpoint-*") if (match := _NAME.fullmatch(path.name))
    ]
    return [path for _, path in sorted(numbered, reverse=True)]


def _is_whole(file: Path) -> bool:
    there = file.is_file() and file.stat().st_size > 0
    return there and (file.suffix != ".safetensors" or _is_whole_safetensors(file))


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
