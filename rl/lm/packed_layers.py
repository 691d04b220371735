"""Linear layers for generation: few rows at a time read all weights, and how these lie in memory decides about the time.

Within ``packed_layers`` each layer's weights, with its adapter added, are kept a second time as oneDNN packs them, which is
two to three times as fast as a plain product of six rows and no slower with hundreds. The model's own weights are only read.

Shapes: O and I, the widths after and before a layer; R, the rank of its adapter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any, Final, cast

import torch
from peft.tuners.lora import Linear as LoraLinear
from torch import Tensor, nn

from rl.lm.lora_passes import can_be_added, own_adapters
from rl.lm.replaced_forwards import replaced_forwards

MOST_BYTES: Final = 2**31
"""Size of the weights that are kept twice: those of larger models are not."""
_PACKED: Final = "ratchet_packs_layers"


@contextmanager
@torch.no_grad()
def packed_layers(model: nn.Module) -> Iterator[bool]:
    """Whether layers of the model are packed within the block, for passes without gradients; nothing may train in it.

    Float32 on a CPU only: passes under autocast, which a trainer may have given the model itself, are computed as ever, and
    so are other kinds of layers and of adapters. Within another such block nothing more is done.
    """
    layers = _layers_of(model)
    if hasattr(model, _PACKED) or not _is_worth_it(layers):
        yield hasattr(model, _PACKED)
        return
    with replaced_forwards({layer: _pack(layer) for layer in layers}):
        setattr(model, _PACKED, True)
        try:
            yield True
        finally:
            delattr(model, _PACKED)


def _layers_of(model: nn.Module) -> list[nn.Module]:
    """Those that can be packed; of one with an adapter not the parts."""
    layers: list[nn.Module] = []
    for child in model.children():
        if isinstance(child, LoraLinear):
            layers += [child] if _is_plain(child) else []
        elif type(child) is nn.Linear:
            layers.append(child)
        else:
            layers += _layers_of(child)
    return layers


def _is_plain(layer: LoraLinear) -> bool:
    """Whether its adapter is off, or the only one and can be added to the weights."""
    if type(layer) is not LoraLinear or type(layer.get_base_layer()) is not nn.Linear:
        return False
    names = own_adapters(layer)
    return not names or can_be_added(layer, names)


def _is_worth_it(layers: list[nn.Module]) -> bool:
    if not torch.backends.mkldnn.is_available() or torch.is_autocast_enabled("cpu"):
        return False
    weights = [_plain_layer(layer).weight for layer in layers]
    if any(weight.device.type != "cpu" or weight.dtype != torch.float32 for weight in weights):
        return False
    return 0 < sum(weight.nbytes for weight in weights) <= MOST_BYTES


def _plain_layer(layer: nn.Module) -> nn.Linear:
    base: Any = layer.get_base_layer() if isinstance(layer, LoraLinear) else layer
    return cast(nn.Linear, base)


def _pack(layer: nn.Module) -> Callable[..., Tensor]:
    plain, bias = layer.forward, _plain_layer(layer).bias
    packed = torch.ops.mkldnn._reorder_linear_weight(_whole_weight(layer))

    @wraps(plain)
    def forward(x: Tensor, *arguments: Any, **named: Any) -> Tensor:
        if torch.is_grad_enabled() or torch.is_autocast_enabled("cpu") or arguments or named:
            return plain(x, *arguments, **named)
        y: Tensor = torch.ops.mkldnn._linear_pointwise(x, packed, bias, "none", [], "")
        return y

    return forward


def _whole_weight(layer: nn.Module) -> Tensor:
    """(O, I): W, or W + s B A with the adapter's A (R, I) and B (O, R)."""
    weight = _plain_layer(layer).weight.detach()
    if not isinstance(layer, LoraLinear) or not (names := own_adapters(layer)):
        return weight
    first, second = (cast(nn.Linear, part[names[0]]).weight for part in (layer.lora_A, layer.lora_B))
    return torch.addmm(weight, second.to(weight), first.to(weight), alpha=float(layer.scaling[names[0]]))
