"""The layers below the lowest adapter: nothing in them is trained, so the states that leave them are computed once a text.

Training, its reference and every later epoch run through the upper layers only; the states lie in a mapped file. What
comes out is what the whole model gives (to rounding: a batch is padded otherwise), and generation, which keeps keys and
values, is not touched.

Shapes: B rows, T tokens of the longest, H the width of the model."""

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import blake2b
from io import SEEK_END, BufferedRandom
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from transformers import PreTrainedModel
from transformers.pytorch_utils import Conv1D

from rl.base.locks import try_lock
from rl.lm.packed_layers import Forward, replaced_forwards
from rl.lm.token_tree.plan import Tokens, TokenTree, key_of

_HEAD: Final = struct.Struct("<16sIII8s28x")
"""64 bytes, as the mark has: numbers behind them lie at multiples of their size."""
_KINDS: Final = (torch.float32, torch.bfloat16, torch.float16, torch.float64)


class _Entry(NamedTuple):
    begin: int
    tokens: int
    width: int
    kind: int
    digest: bytes

    @property
    def size(self) -> int:
        """Bytes."""
        return self.tokens * self.width * _KINDS[self.kind].itemsize


class StateFile:
    """States of texts in a file that a later process can go on with: appended to, and read back from its pages. The file
    begins with a mark of the model that gave them. Each entry is a head (digest of the text, T, H, the kind of number,
    digest of the states) and the states. What a killed process left half-written, or does not fit its digest, is not
    there."""

    def __init__(self, file: Path, mark: str) -> None:
        """``mark``: at most 64 characters that tell one model from another. States under another one are dropped, and so are
        those in a file that another process still writes."""
        self._file, self._mark = file, mark.encode().ljust(_HEAD.size)
        self._entries: dict[bytes, _Entry] = {}
        self._handle = _take(file)
        end = self._read_entries()
        self._of_earlier = {*self._entries}  # not compared with their digests yet
        self._handle.seek(end)
        self._handle.truncate()
        if not end:
            self._handle.write(self._mark)

    def __contains__(self, text: bytes) -> bool:
        key = _key(text)
        if key in self._of_earlier:
            self._of_earlier.remove(key)
            if _digest(self._bytes(self._entries[key])) != self._entries[key].digest:
                del self._entries[key]
        return key in self._entries

    def write(self, text: bytes, states: Tensor) -> None:
        """``states``: (T, H)."""
        tokens, width = states.shape
        values = states.contiguous().cpu().view(torch.uint8).numpy()
        entry = _Entry(self._handle.tell() + _HEAD.size, tokens, width, _KINDS.index(states.dtype), _digest(values))
        key = _key(text)
        self._handle.write(_HEAD.pack(key, *entry[1:]))
        self._handle.write(values.data)
        self._entries[key] = entry

    def read(self, text: bytes) -> Tensor:
        """(T, H)."""
        self._handle.flush()
        entry = self._entries[_key(text)]
        return torch.from_numpy(self._bytes(entry)).view(_KINDS[entry.kind]).view(entry.tokens, entry.width)

    def close(self, *, keep: bool) -> None:
        self._handle.close()
        if not keep:
            self._file.unlink(missing_ok=True)  # another attempt may have taken its place and ended

    def _bytes(self, entry: _Entry) -> NDArray[np.uint8]:
        return np.memmap(self._handle, np.uint8, "c", entry.begin, (entry.size,))

    def _read_entries(self) -> int:
        """Where the last whole one ends; 0 where the file is another model's."""
        size = self._handle.seek(0, SEEK_END)
        self._handle.seek(0)
        if self._handle.read(_HEAD.size) != self._mark:
            return 0
        end = _HEAD.size
        while len(head := self._handle.read(_HEAD.size)) == _HEAD.size:
            key, *about = _HEAD.unpack(head)
            if about[2] >= len(_KINDS) or (entry := _Entry(end + _HEAD.size, *about)).begin + entry.size > size:
                break
            self._entries[key] = entry
            end = self._handle.seek(entry.begin + entry.size)
        return end


def _take(file: Path) -> BufferedRandom:
    """Locked; a new one in the place of one that an attempt which was given up for dead still has."""
    handle = file.open("r+b" if file.exists() else "x+b")
    if not try_lock(handle.fileno()):
        handle.close()
        file.unlink()
        return _take(file)
    return handle


def _key(text: bytes) -> bytes:
    return blake2b(text, digest_size=16).digest()


def _digest(values: NDArray[np.uint8]) -> bytes:
    return blake2b(values.data, digest_size=8).digest()


@contextmanager
def kept_trunk(model: PreTrainedModel, first: int, file: Path, mark: str = "") -> Iterator[None]:
    """Within the block the layers below ``first`` run once for each text; 0 leaves the model as it is. ``file``: where the
    states lie. With a ``mark``, the model's, they stay there where the block ends by an exception or by the end of the
    process, and are used by the next block with the same one. The layers must have no dropout and no adapter. A pass whose
    positions are not counted from each text's first token is computed as ever."""
    if not first:
        yield
        return
    trunk = _Trunk(model, first, StateFile(file, mark and f"{first} {mark}"))
    keep = bool(mark)
    try:
        with replaced_forwards({layer: trunk.forward_of(number) for number, layer in enumerate(trunk.layers)}):
            yield
        keep = False
    finally:
        trunk.remove(keep=keep)


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


class _Trunk:
    def __init__(self, model: PreTrainedModel, first: int, states: StateFile) -> None:
        decoder: Any = model.base_model
        self._states, self.layers = states, list(layers_of(model)[:first])
        self._forwards: list[Forward] = [layer.forward for layer in self.layers]
        self._keys: list[bytes] = []
        self._places: list[tuple[int, Tokens]] = []
        self._rows: int | None = 0
        self._missing: list[int] = []
        self._below = torch.empty(0)
        self._hook = decoder.register_forward_pre_hook(self._see_texts, with_kwargs=True)

    def remove(self, *, keep: bool) -> None:
        self._hook.remove()
        self._states.close(keep=keep)

    def _see_texts(self, _: Any, arguments: tuple[Any, ...], named: dict[str, Any]) -> None:
        """Which texts this pass reads, or none where the layers must run as ever."""
        self._keys = []
        tree: TokenTree | None = named.get("token_tree")
        if tree is not None:
            self._keys, self._places, self._rows = tree.keys, [(0, at) for at in tree.rows], None
        elif (ids := named.get("input_ids", arguments[0] if arguments else None)) is not None:
            mask = named.get("attention_mask")
            goes_on = named.get("past_key_values") is not None or named.get("use_cache")
            if not goes_on and (mask is None or mask.dim() == 2):
                self._see_rows(ids, mask, named.get("position_ids"))
        self._missing = [number for number, key in enumerate(self._keys) if key not in self._states]

    def _see_rows(self, ids: Tensor, mask: Tensor | None, positions: Tensor | None) -> None:
        """``ids``: (B, T)."""
        mask = torch.ones_like(ids) if mask is None else mask
        counted = (mask.cumsum(dim=1) - 1).clamp(min=0)  # (B, T): as if a text had no padding before it
        positions = torch.arange(ids.shape[1], device=ids.device) if positions is None else positions
        if not bool(((counted == positions) | (mask == 0)).all()):
            return
        self._places = [(number, row.nonzero()[:, 0].cpu().numpy()) for number, row in enumerate(mask)]
        self._keys = [key_of(ids[number].cpu().numpy()[at]) for number, at in self._places]
        self._rows = len(ids)

    def forward_of(self, number: int) -> Forward:
        """The layer's, over the rows that have no states yet; the last one gives those of all rows."""
        forward, is_last = self._forwards[number], number == len(self._forwards) - 1

        def run(hidden: Tensor, *arguments: Any, **named: Any) -> Any:
            if not self._keys:
                return forward(hidden, *arguments, **named)
            if self._missing:
                with torch.no_grad():
                    below = self._of_missing(hidden) if number == 0 else self._below  # (missing, T, H)
                    self._below = forward(below, *self._of_missing(arguments), **self._of_missing(named))
            return self._gather(hidden) if is_last else hidden

        return run

    def _gather(self, hidden: Tensor) -> Tensor:
        """(B, T, H); zeros where a row is padded, which nothing reads."""
        for number, missing in enumerate(self._missing):
            row, at = self._places[missing]
            self._states.write(self._keys[missing], self._below[row if self._rows is None else number, at])
        together = torch.zeros(hidden.shape, dtype=self._states.read(self._keys[0]).dtype)
        for (row, at), key in zip(self._places, self._keys, strict=True):
            together[row, at] = self._states.read(key)
        return together.to(hidden.device)

    def _of_missing(self, value: Any) -> Any:
        """The missing rows of whatever has one entry a row: masks, position ids, rotations. Those of a tree are all, because
        its tokens belong to several."""
        if isinstance(value, Tensor):
            return value[self._missing] if value.dim() > 1 and len(value) == self._rows and self._rows > 1 else value
        if isinstance(value, tuple):
            return tuple(self._of_missing(part) for part in value)
        if isinstance(value, dict):
            return {name: self._of_missing(part) for name, part in value.items()}
        return value
