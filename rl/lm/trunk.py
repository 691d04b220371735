"""The layers below the lowest adapter: nothing in them is trained, so the states that leave them are computed once a text.

Training, its reference and every later epoch run through the upper layers only; the states lie in a mapped file. What
comes out is what the whole model gives (to rounding: a batch is padded otherwise), and generation, which keeps keys and
values, is not touched.

Shapes: B rows, T tokens of the longest, H the width of the model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedModel
from transformers.pytorch_utils import Conv1D

Forward = Callable[..., Any]


@contextmanager
def kept_trunk(model: PreTrainedModel, first: int, file: Path) -> Iterator[None]:
    """Within the block the layers below ``first`` run once for each text; 0 leaves the model as it is.

    ``file``: where the states lie, which must not be there yet. The layers must have no dropout and no adapter, and texts
    must be padded on the right; one that is not is computed as ever.
    """
    if not first:
        yield
        return
    trunk = _Trunk(model, first, _StateFile(file))
    try:
        yield
    finally:
        trunk.remove()


def layers_of(model: PreTrainedModel) -> torch.nn.ModuleList:
    """The decoder's, from the lowest. Raises ValueError for a model that keeps them in another way."""
    count = model.config.get_text_config().num_hidden_layers
    for part in model.base_model.children():
        if isinstance(part, torch.nn.ModuleList) and len(part) == count:
            return part
    raise ValueError(f"{type(model).__name__} has no list of its {count} layers")


def linear_layers(model: PreTrainedModel) -> list[str]:
    """Their names within a layer."""
    modules = layers_of(model)[-1].named_modules()
    return sorted(
        {name.rpartition(".")[2] for name, module in modules if isinstance(module, (torch.nn.Linear, Conv1D))}
    )


class _StateFile:
    """States by text, appended to one file and read back from its pages."""

    def __init__(self, file: Path) -> None:
        self._file, self._handle = file, file.open("xb")
        self._rows: dict[bytes, tuple[int, int, int, torch.dtype]] = {}

    def __contains__(self, key: bytes) -> bool:
        return key in self._rows

    def write(self, key: bytes, states: Tensor) -> None:
        """``states``: (T, H)."""
        values = states.contiguous().cpu().view(torch.uint8)
        self._rows[key] = (self._handle.tell(), *states.shape, states.dtype)
        self._handle.write(values.numpy().data)

    def read(self, key: bytes) -> Tensor:
        self._handle.flush()
        start, tokens, width, dtype = self._rows[key]
        values = np.memmap(self._file, np.uint8, "c", start, (tokens, width * dtype.itemsize))
        return torch.from_numpy(values).view(dtype)

    def close(self) -> None:
        self._handle.close()
        self._file.unlink()


class _Trunk:
    def __init__(self, model: PreTrainedModel, first: int, states: _StateFile) -> None:
        decoder: Any = model.base_model
        self._states, self._layers = states, list(layers_of(model)[:first])
        self._forwards: list[Forward] = [layer.forward for layer in self._layers]
        self._keys: list[bytes] | None = None
        self._missing: list[int] = []
        self._below = torch.empty(0)
        self._hook = decoder.register_forward_pre_hook(self._see_texts, with_kwargs=True)
        for number, layer in enumerate(self._layers):
            layer.forward = self._forward_of(number)

    def remove(self) -> None:
        self._hook.remove()
        for layer, forward in zip(self._layers, self._forwards, strict=True):
            layer.forward = forward
        self._states.close()

    def _see_texts(self, module: Any, arguments: tuple[Any, ...], named: dict[str, Any]) -> None:
        """Each row's key, or none where the layers must run as ever."""
        ids = named.get("input_ids", arguments[0] if arguments else None)
        mask = named.get("attention_mask")
        self._keys = None
        plain = (
            named.get("past_key_values") is None and not named.get("use_cache") and named.get("position_ids") is None
        )
        if ids is None or not plain or (mask is not None and mask.dim() != 2):
            return
        lengths = [ids.shape[1]] * len(ids) if mask is None else mask.sum(dim=1).tolist()  # (B,)
        if mask is not None and not all(bool(row[:length].all()) for row, length in zip(mask, lengths, strict=True)):
            return
        self._keys = [row[:length].cpu().numpy().tobytes() for row, length in zip(ids, lengths, strict=True)]
        self._lengths = lengths
        self._missing = [row for row, key in enumerate(self._keys) if key not in self._states]

    def _forward_of(self, number: int) -> Forward:
        """The layer's, over the rows that have no states yet; the last one gives those of all rows."""
        forward, is_last = self._forwards[number], number == len(self._forwards) - 1

        def run(hidden: Tensor, *arguments: Any, **named: Any) -> Any:
            if self._keys is None:
                return forward(hidden, *arguments, **named)
            if self._missing:
                with torch.no_grad():
                    below = hidden[self._missing] if number == 0 else self._below  # (missing, T, H)
                    self._below = forward(below, *self._of_missing(arguments), **self._of_missing(named))
            return self._gather(hidden) if is_last else hidden

        return run

    def _gather(self, hidden: Tensor) -> Tensor:
        """(B, T, H); zeros where a row is padded, which nothing reads."""
        assert self._keys is not None  # noqa: S101  the caller has looked
        for states, row in zip(self._below if self._missing else (), self._missing, strict=True):
            self._states.write(self._keys[row], states[: self._lengths[row]])
        dtype = self._states.read(self._keys[0]).dtype
        together = torch.zeros(hidden.shape, dtype=dtype)
        for row, key in enumerate(self._keys):
            together[row, : self._lengths[row]] = self._states.read(key)
        return together.to(hidden.device)

    def _of_missing(self, value: Any) -> Any:
        """The missing rows of whatever has one entry a row: masks, position ids, rotations."""
        if isinstance(value, Tensor):
            assert self._keys is not None  # noqa: S101
            return value[self._missing] if value.dim() > 1 and len(value) == len(self._keys) > 1 else value
        if isinstance(value, tuple):
            return tuple(self._of_missing(part) for part in value)
        if isinstance(value, dict):
            return {name: self._of_missing(part) for name, part in value.items()}
        return value
