"""A LoRA adapter as what it adds to each layer. Shapes, places and scales are those that PEFT itself gives it, on a model
without weights: a pattern or an option that PEFT reads is read here too."""

import itertools
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from peft import LoraConfig, PeftModel, get_peft_model_state_dict
from peft.tuners.lora import Linear, LoraLayer
from transformers import PreTrainedModel

from rl.base.errors import ExportFailed
from rl.export.gguf.weights import Checkpoint
from rl.lm.model_path import ADAPTER_CONFIG, ADAPTER_WEIGHTS, check_adapter
from rl.lm.reading import errors_as

_PREFIX = "base_model.model."
_KEY = re.compile(re.escape(_PREFIX) + r".+\.lora_[AB]\.weight")
_PLAIN: Mapping[str, tuple[Any, ...]] = {
    "peft_type": ("LORA",),
    "init_lora_weights": (True, False, None, "gaussian", "orthogonal", "eva"),
    "bias": ("none",),
    **dict.fromkeys(("use_dora", "lora_bias", "use_qalora", "use_bdlora"), (False, None)),
    **dict.fromkeys(("modules_to_save", "target_parameters", "layer_replication"), (None, [])),
    **dict.fromkeys(("trainable_token_indices", "alora_invocation_tokens"), (None,)),
    **dict.fromkeys(("arrow_config", "kasa_config", "monteclora_config", "velora_config"), (None,)),
}
"""Options of adapters that are nothing but two matrices for each layer. Other ways of starting them change the base too."""


@dataclass(frozen=True, slots=True)
class Update:
    """``scale * B @ A`` of shape (out, in), with A of shape (r, in) and B of shape (out, r)."""

    module: str
    """The layer's name in the base model."""
    scale: float
    transposed: bool
    """The layer's weight is stored as (in, out)."""

    @property
    def weight(self) -> str:
        return f"{self.module}.weight"


class Adapter:
    """``special`` says what is not plain LoRA about it; where it is empty, all of it is in ``updates``, by weight. Raises
    ExportFailed for one that is unfinished or damaged, and, if it is plain, for one of another base model."""

    def __init__(self, directory: Path, model: PreTrainedModel, base_model: str) -> None:
        """``model`` has no weights (see ``loading.skeleton``), and gains the adapter's layers."""
        self.directory = check_adapter(directory, ExportFailed)
        path = directory / ADAPTER_CONFIG
        try:
            config = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise ExportFailed(f"cannot read {path}: {error}") from error
        if not isinstance(config, dict):
            raise ExportFailed(f"{path} is not a JSON object")
        self.config = config
        self.weights = Checkpoint(directory, ADAPTER_WEIGHTS)
        self.updates: dict[str, Update] = {}
        options = (
            f"{key} is {config[key]!r}" for key, plain in _PLAIN.items() if config.get(key, plain[0]) not in plain
        )
        trained = (f"it trains {key}" for key in self.weights.shapes if not _KEY.fullmatch(key))
        self.special = next(itertools.chain(options, trained), "")
        if not self.special:
            self._find_updates(model, base_model)

    def delta(self, update: Update) -> torch.Tensor:
        """What is added to the weight, in float32, computed as PEFT does. Raises ExportFailed when it is not finite."""
        a, b = (self.weights.tensor(self.key(update, side)).to(torch.float32) for side in "AB")
        product = b @ a
        return (product.T if update.transposed else product) * update.scale

    def key(self, update: Update, side: str) -> str:
        return f"{_PREFIX}{update.module}.lora_{side}.weight"

    def _find_updates(self, model: PreTrainedModel, base_model: str) -> None:
        with errors_as(ExportFailed, f"the adapter {self.directory} does not fit {base_model}"):
            config = LoraConfig.from_pretrained(str(self.directory))
            config.init_lora_weights = False
            with torch.device("meta"):
                adapted = PeftModel(model, config)
            layers = {name: layer for name, layer in adapted.named_modules() if isinstance(layer, LoraLayer)}
            if odd := [name for name, layer in layers.items() if type(layer) is not Linear or layer.lora_variant]:
                self.special = f"it trains {odd[0].removeprefix(_PREFIX)} ({type(layers[odd[0]]).__name__})"
                return
            self._require_fit(get_peft_model_state_dict(adapted, save_embedding_layers=False))
        for name, layer in layers.items():
            module = name.removeprefix(_PREFIX)
            update = Update(module, float(layer.scaling["default"]), bool(layer.fan_in_fan_out))
            self.updates[update.weight] = update

    def _require_fit(self, expected: dict[str, Any]) -> None:
        """PEFT passes over weights that the model has no place for, and leaves random those that the file does not have."""
        shapes = {name: tuple(weight.shape) for name, weight in expected.items()}
        if not shapes:
            raise ValueError("no layer of the model is meant by it")
        if stray := sorted(shapes.keys() ^ self.weights.shapes.keys()):
            raise ValueError(f"{len(stray)} weights do not match, the first is {stray[0]}")
        if odd := [name for name, shape in shapes.items() if self.weights.shapes[name] != shape]:
            actual = list(self.weights.shapes[odd[0]])
            raise ValueError(f"{odd[0]} has the shape {actual} instead of {list(shapes[odd[0]])}")
