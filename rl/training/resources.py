"""What runs out during long work, memory and disk, told as one sentence that says what to change."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from safetensors import SafetensorError

from rl.errors import TrainingFailed

_MEMORY = ("out of memory", "can't allocate memory", "not enough memory")
_DISK = ("no space left", "disk quota exceeded", "file too large", "pytorchstreamwriter failed writing")
_DISK_NUMBERS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@contextmanager
def resource_advice() -> Iterator[None]:
    """Turns the many shapes of a full memory and a full disk into TrainingFailed; other errors pass."""
    try:
        yield
    except (MemoryError, RuntimeError, OSError, SafetensorError) as error:
        if _is_memory(error):
            raise TrainingFailed(
                "out of memory: halve batch_size and double gradient_accumulation, lower max_length, "
                "set activation_checkpointing, or choose a smaller base model"
            ) from error
        if _is_disk(error):
            raise TrainingFailed(
                "the disk is full or a quota is reached; free some space and resume from the last checkpoint"
            ) from error
        raise


def _is_memory(error: Exception) -> bool:
    return isinstance(error, (MemoryError, torch.OutOfMemoryError)) or _says(error, _MEMORY)


def _is_disk(error: Exception) -> bool:
    return (isinstance(error, OSError) and error.errno in _DISK_NUMBERS) or _says(error, _DISK)


def _says(error: Exception, signs: tuple[str, ...]) -> bool:
    return any(sign in str(error).lower() for sign in signs)
