"""Reads a safetensors model directory one tensor at a time, so that a model need not fit in memory twice."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open

from rl.errors import ExportFailed

Array = NDArray[np.float32]


class Checkpoint:
    """``shapes`` maps every stored tensor's name to its shape. Raises ExportFailed for a directory it cannot read."""

    def __init__(self, directory: Path, single_file: str = "model.safetensors") -> None:
        self.directory = directory
        self._file_of: dict[str, str] = {}
        self.shapes: dict[str, tuple[int, ...]] = {}
        for file in _weight_files(directory, single_file):
            self._list(file)

    def read(self, name: str) -> Array:
        """The tensor as float32. Raises ExportFailed when it holds a value that is not finite."""
        with safe_open(self.directory / self._file_of[name], framework="pt") as handle:
            values: Array = handle.get_tensor(name).to(torch.float32).numpy()
        if not np.isfinite(values).all():
            raise ExportFailed(
                f"the weight {name} holds NaN or infinity: the model is damaged, or its training diverged"
            )
        return values

    def _list(self, file: str) -> None:
        try:
            with safe_open(self.directory / file, framework="pt") as handle:
                for name in handle.keys():  # noqa: SIM118 - not a mapping
                    self._file_of[name] = file
                    self.shapes[name] = tuple(handle.get_slice(name).get_shape())
        except (OSError, SafetensorError) as error:
            raise ExportFailed(f"cannot read {self.directory / file}: {error}") from error


def _weight_files(directory: Path, single_file: str) -> list[str]:
    index = directory / f"{single_file}.index.json"
    if index.is_file():
        names: dict[str, str] = json.loads(index.read_text(encoding="utf-8"))["weight_map"]
        files = sorted(set(names.values()))
        if stray := [file for file in files if Path(file).name != file]:
            raise ExportFailed(f"{index} names a file outside of its directory: {stray[0]}")
        return files
    if (directory / single_file).is_file():
        return [single_file]
    raise ExportFailed(f"{directory} has no {single_file}")
