"""What runs out during long work, memory and disk, told as one sentence that says what to change."""

import ctypes
import gc
import resource
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from safetensors import SafetensorError

from rl.base.disk_space import tells_of_full_disk
from rl.base.errors import OutOfMemory, TrainingFailed

_MEMORY = ("out of memory", "outofmemory", "can't allocate memory", "not enough memory", "bad_alloc", "alloc_failed")
_DISK = ("no space left", "disk quota exceeded", "file too large", "pytorchstreamwriter failed writing")


@contextmanager
def resource_advice() -> Iterator[None]:
    """Turns the many shapes of a full memory into OutOfMemory and of a full disk into TrainingFailed; other errors pass."""
    try:
        yield
    except (MemoryError, RuntimeError, OSError, SafetensorError) as error:
        text = str(error).lower()
        is_memory = isinstance(error, (MemoryError, torch.OutOfMemoryError))
        if is_memory or any(sign in text for sign in _MEMORY):
            raise OutOfMemory(
                "out of memory: halve batch_size and double gradient_accumulation, lower max_length, "
                "set activation_checkpointing, or choose a smaller base model"
            ) from error
        if tells_of_full_disk(error) or any(sign in text for sign in _DISK):
            raise TrainingFailed(
                "the disk is full or a quota is reached; free some space and resume from the last checkpoint"
            ) from error
        raise


def release_memory() -> None:
    """Gives back what nothing refers to any more: trainer and model refer to each other, and allocators keep blocks."""
    gc.collect()
    if trim := getattr(ctypes.CDLL(None), "malloc_trim", None):  # glibc keeps what is freed in small pieces
        trim(0)
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    elif torch.backends.mps.is_available():
        torch.mps.empty_cache()


def peak_memory() -> int:
    """Bytes: the most that this process has held; on a GPU, of its memory."""
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        return torch.cuda.max_memory_reserved()
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most * 1024
