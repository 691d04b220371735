"""Reads a safetensors directory one tensor at a time, so that a model need not fit in memory."""

from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open

from rl.base.errors import ExportFailed
from rl.lm.model_path import weight_files

Array = NDArray[np.float32]


class Checkpoint:
    """``shapes`` maps every stored tensor's name to its shape. Raises ExportFailed for a directory it cannot read."""

    def __init__(self, directory: Path, single_file: str = "model.safetensors") -> None:
        self.directory = directory
        self._file_of: dict[str, str] = {}
        self.shapes: dict[str, tuple[int, ...]] = {}
        has_index = (directory / f"{single_file}.index.json").is_file()
        if not (directory / single_file).is_file() and not has_index:
            raise ExportFailed(f"{directory} has no {single_file}")
        try:
            files = weight_files(directory, single_file)
        except (OSError, ValueError) as error:
            raise ExportFailed(f"{directory}: {error}") from error
        for file in files:
            try:
                with safe_open(self.directory / file, framework="pt") as handle:
                    for name in handle.keys():  # noqa: SIM118 - not a mapping
                        self._file_of[name] = file
                        self.shapes[name] = tuple(handle.get_slice(name).get_shape())
            except (OSError, SafetensorError) as error:
                raise ExportFailed(f"cannot read {self.directory / file}: {error}") from error

    def tensor(self, name: str) -> torch.Tensor:
        """As it is stored, and still on disk until it is used. Raises ExportFailed when a value is not finite."""
        path = self.directory / self._file_of[name]
        try:
            with safe_open(path, framework="pt") as handle:
                values = handle.get_tensor(name)
        except (OSError, SafetensorError) as error:
            raise ExportFailed(f"cannot read {name} in {path}: {error}") from error
        require_finite(values, name)
        return values

    def read(self, name: str) -> Array:
        """The tensor as float32."""
        values: Array = self.tensor(name).to(torch.float32).numpy()
        return values


def require_finite(values: torch.Tensor, name: str) -> None:
    """By the extremes, which are NaN where any value is: 15 times faster than a mask, which would also take memory."""
    if values.is_floating_point() and values.numel() and not all(torch.isfinite(end) for end in values.aminmax()):
        raise ExportFailed(f"the weight {name} holds NaN or infinity: the model is damaged, or its training diverged")
