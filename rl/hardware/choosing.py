"""One GPU of several, as PyTorch counts them: cuda:1."""

from __future__ import annotations

import os
from functools import cache

from rl.base.errors import UsageError

_VISIBLE = "CUDA_VISIBLE_DEVICES"


def choose_gpu(device: str) -> None:
    """Hides all other GPUs from the libraries of this process and of its children, where ``device`` is cuda:N: some of them
    take the first that they see. To be called before any looks. Raises UsageError for one that was hidden before."""
    if ":" not in device:
        return
    number, visible = int(device.partition(":")[2]), _visible_at_first()
    if visible is None:
        os.environ[_VISIBLE] = str(number)
    elif number < len(visible):
        os.environ[_VISIBLE] = visible[number]
    else:
        raise UsageError(f"there is no device {device} here: {_VISIBLE} leaves {len(visible)}, the first is cuda:0")


def require_device(device: str, gpus: int) -> None:
    """``gpus``: how many PyTorch calls cuda there are. Raises UsageError for one that is not here."""
    number = int(device.partition(":")[2] or 0)
    if number >= gpus:
        there = f"there are cuda:0 to cuda:{gpus - 1}" if gpus > 1 else "there is cuda:0 only" if gpus else ""
        raise UsageError(f"there is no device {device} here: {there or 'leave it out, or take cpu'}")


def visible_names() -> list[str] | None:
    """Numbers or UUIDs, as CUDA_VISIBLE_DEVICES has them now; None: all."""
    value = os.environ.get(_VISIBLE)
    return None if value is None else [name.strip() for name in value.split(",") if name.strip()]


_visible_at_first = cache(visible_names)
