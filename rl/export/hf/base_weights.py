"""The parameters of a base model under the names that transformers gives them, read one at a time from its files."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import huggingface_hub
import torch
from transformers import PreTrainedModel
from transformers.conversion_mapping import get_model_conversion_mapping
from transformers.core_model_loading import WeightConverter

from rl.base.errors import ExportFailed
from rl.export.gguf.weights import Checkpoint
from rl.export.hf.loading import skeleton, stored_dtype
from rl.lm.loading import describe_base, errors_as
from rl.lm.model_path import check_model_path

_WEIGHT_FILES = ["model.safetensors", "model.safetensors.index.json", "model-*-of-*.safetensors"]


class BaseWeights:
    """``names`` of the parameters in the order of transformers; ``obstacle`` says why they cannot be read one at a time,
    and is empty where they can.

    Raises ExportFailed for a model that lacks a parameter, or has one of another shape than its configuration says.
    """

    def __init__(self, base_model: str, config: Any) -> None:
        self.base_model = base_model
        self.model: PreTrainedModel = skeleton(config, base_model)
        self.dtype = stored_dtype(config)
        self.checkpoint = Checkpoint(_directory(base_model))
        parameters = self.model.state_dict()
        self.shapes = {name: tuple(parameters[name].shape) for name in parameters if name not in self._aliases()}
        self._source = {name: stored for name in self.shapes if (stored := self._stored_name(name))}
        self.obstacle = self._find_obstacle(config)
        if not self.obstacle:
            self._check_shapes()

    @property
    def names(self) -> list[str]:
        return list(self.shapes)

    def tensor(self, name: str) -> torch.Tensor:
        """As stored. Raises ExportFailed when a value is not finite."""
        return self.checkpoint.tensor(self._source[name])

    def _aliases(self) -> dict[str, str]:
        """The parameters that are another one: transformers saves them once."""
        return dict(self.model.all_tied_weights_keys)

    def _stored_name(self, name: str) -> str:
        """The files of a bare model, such as GPT-2's, leave out the prefix; empty where there is no such tensor."""
        bare = name.removeprefix(f"{self.model.base_model_prefix}.")
        return next((stored for stored in (name, bare) if stored in self.checkpoint.shapes), "")

    def _find_obstacle(self, config: Any) -> str:
        if getattr(config, "quantization_config", None):
            return "the base model is stored quantised"
        if any(isinstance(step, WeightConverter) for step in get_model_conversion_mapping(self.model)):
            return "transformers arranges the weights of this architecture anew"
        if self.dtype != torch.float32 and self.model._keep_in_fp32_modules_strict:
            return "this architecture keeps some weights in float32"
        if any(not self._equal(name, other) for name, other in self._aliases().items()):
            return "its output matrix and its embeddings are said to be one, and are not"
        missing = [name for name in self.shapes if name not in self._source]
        if missing and (unknown := self._unknown()):
            return f"it has other weights than transformers expects ({unknown[0]}, but no {missing[0]})"
        if missing:
            raise ExportFailed(f"the model of {describe_base(self.base_model)} is not whole: it lacks {missing[0]}")
        return ""

    def _equal(self, name: str, other: str) -> bool:
        """Whether a parameter that is said to be another one is not stored differently."""
        first, second = self._stored_name(name), self._source.get(other)
        if not first or not second:
            return True
        return torch.equal(self.checkpoint.tensor(first), self.checkpoint.tensor(second))

    def _unknown(self) -> list[str]:
        ignored = [re.compile(pattern) for pattern in self.model._keys_to_ignore_on_load_unexpected or ()]
        known = {*self._source.values(), *(self._stored_name(name) for name in self._aliases())}
        return [
            name
            for name in self.checkpoint.shapes
            if name not in known and not any(pattern.search(name) for pattern in ignored)
        ]

    def _check_shapes(self) -> None:
        for name, stored in self._source.items():
            if (shape := self.checkpoint.shapes[stored]) != self.shapes[name]:
                raise ExportFailed(
                    f"the weight {stored} of {describe_base(self.base_model)} has the shape {list(shape)}, "
                    f"but its configuration says {list(self.shapes[name])}"
                )


def _directory(base_model: str) -> Path:
    source = check_model_path(base_model)
    if Path(source).is_dir():
        return Path(source)
    with errors_as(ExportFailed, f"cannot load the model of {describe_base(base_model)}"):
        return Path(huggingface_hub.snapshot_download(source, allow_patterns=_WEIGHT_FILES))
