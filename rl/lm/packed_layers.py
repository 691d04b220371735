"""Faster passes of linear layers: packed for generation, fused with their LoRA adapters for training.

In generation few rows at a time read all weights, and how these lie in memory decides about the time.

Within ``packed_layers`` each layer's weights, with its adapter added, are kept a second time as oneDNN packs them, which is
two to three times as fast as a plain product of six rows and no slower with hundreds. The model's own weights are only read.

PEFT computes y = x W^T + s dropout(x) A^T B^T as three products, a scaling and a sum, each a tensor of its own, and draws
its dropout by a generator that takes longer than the products. Within ``fused_adapters`` the sums are the products' own, and
of sixteen random bits an element decides: the share that is dropped is right to one in 65,536.

Shapes: T tokens, O and I the widths after and before a layer, R the rank of its adapter."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import wraps
from typing import Any, Final, cast

import torch
from peft.tuners.lora import Linear
from torch import Tensor, nn

MOST_BYTES: Final = 2**31
"""Size of the weights that are kept twice: those of larger models are not."""
_PACKED: Final = "ratchet_packs_layers"


@contextmanager
@torch.no_grad()
def packed_layers(model: nn.Module) -> Iterator[bool]:
    """Whether layers of the model are packed within the block, for passes without gradients; nothing may train in it.
    Float32 on a CPU only: passes under autocast, which a trainer may have given the model itself, are computed as ever, and
    so are other kinds of layers and of adapters. Within another such block nothing more is done."""
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
        if isinstance(child, Linear):
            # its adapter is off, or the only one and can be added to the weights
            is_plain = type(child) is Linear and type(child.get_base_layer()) is nn.Linear
            names = own_adapters(child) if is_plain else []
            layers += [child] if is_plain and (not names or can_be_added(child, names)) else []
        elif type(child) is nn.Linear:
            layers.append(child)
        else:
            layers += _layers_of(child)
    return layers


def _is_worth_it(layers: list[nn.Module]) -> bool:
    if not torch.backends.mkldnn.is_available() or torch.is_autocast_enabled("cpu"):
        return False
    weights = [_plain_layer(layer).weight for layer in layers]
    if any(weight.device.type != "cpu" or weight.dtype != torch.float32 for weight in weights):
        return False
    return 0 < sum(weight.nbytes for weight in weights) <= MOST_BYTES


def _plain_layer(layer: nn.Module) -> nn.Linear:
    base: Any = layer.get_base_layer() if isinstance(layer, Linear) else layer
    return cast("nn.Linear", base)


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
    if not isinstance(layer, Linear) or not (names := own_adapters(layer)):
        return weight
    first, second = (cast("nn.Linear", part[names[0]]).weight for part in (layer.lora_A, layer.lora_B))
    return torch.addmm(weight, second.to(weight), first.to(weight), alpha=float(layer.scaling[names[0]]))


Forward = Callable[..., Any]


@contextmanager
def replaced_forwards(others: Mapping[nn.Module, Forward]) -> Iterator[None]:
    """Within the block. Then each module has again what it had: that of its class, or one that had been put in its place."""
    before = {module: vars(module).get("forward") for module in others}
    for module, other in others.items():
        module.forward = other
    try:
        yield
    finally:
        for module, own in before.items():
            if own is None:
                del module.forward
            else:
                module.forward = own


_STEPS: Final = 2**16
"""In which a share is drawn."""
_PER_DRAW: Final = 4
"""Elements that the 64 bits of a draw decide about."""


@contextmanager
def fused_adapters(model: nn.Module) -> Iterator[bool]:
    """Whether layers of the model are fused within the block. Those that are anything but plain LoRA over a plain linear
    layer on a CPU are computed as ever, and so is every layer while its adapter is off or there is more than one."""
    layers = []
    modules: Iterator[Any] = model.modules()
    for layer in modules:
        if type(layer) is Linear:
            base = layer.get_base_layer()
            if type(base) is nn.Linear and base.weight.device.type == "cpu" and not base.weight.requires_grad:
                layers.append(layer)
    with replaced_forwards({layer: _fuse(layer) for layer in layers}):
        yield bool(layers)


def _fuse(layer: Linear) -> Callable[..., Tensor]:
    plain = layer.forward

    @wraps(plain)
    def forward(x: Tensor, *arguments: Any, **named: Any) -> Tensor:
        names = own_adapters(layer)
        if arguments or named or not can_be_added(layer, names):
            return plain(x, *arguments, **named)
        (name,) = names
        base, dropout = layer.get_base_layer(), layer.lora_dropout[name]
        dtype = torch.get_autocast_dtype("cpu") if torch.is_autocast_enabled("cpu") else x.dtype
        share = dropout.p if layer.training and isinstance(dropout, nn.Dropout) else 0.0
        first, second = layer.lora_A[name].weight, layer.lora_B[name].weight
        weights = (weight.to(dtype) for weight in (base.weight, first, second))
        y = _LoraProduct.apply(x.reshape(-1, x.shape[-1]).to(dtype), *weights, layer.scaling[name], share)
        if base.bias is not None:
            y = y + base.bias.to(dtype)
        return y.view(*x.shape[:-1], -1)

    return forward


def own_adapters(layer: Linear) -> list[str]:
    """Names of those that take part in a pass of the layer, beside its weights."""
    if layer.disable_adapters or layer.merged:
        return []
    return [name for name in layer.active_adapters if name in layer.lora_A]


def can_be_added(layer: Linear, names: Sequence[str]) -> bool:
    """Whether they are one, a plain product of two matrices that has no bias."""
    return len(names) == 1 and names[0] not in layer.lora_variant and not layer.lora_bias[names[0]]


class _LoraProduct(torch.autograd.Function):
    """y = x W^T + s (m x) A^T B^T, with the mask m of dropout."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, first: Tensor, second: Tensor, scaling: float, share: float
    ) -> Tensor:
        # x (T, I), weight (O, I), first (R, I), second (O, R)
        mask, kept = draw_mask(x, share) if share else (None, 1.0)
        inner = (x if mask is None else x * mask) @ first.t()  # (T, R)
        factor = scaling / kept
        ctx.save_for_backward(x, weight, first, second, inner, mask)
        ctx.factor = factor
        y = x @ weight.t()
        return y.addmm_(inner, second.t(), alpha=factor)

    @staticmethod
    def backward(ctx: Any, of_y: Tensor) -> tuple[Tensor | None, None, Tensor, Tensor, None, None]:
        x, weight, first, second, inner, mask = ctx.saved_tensors
        of_inner = (of_y @ second).mul_(ctx.factor)  # (T, R)
        of_second = (of_y.t() @ inner).mul_(ctx.factor)  # (O, R)
        of_first = of_inner.t() @ (x if mask is None else x * mask)  # (R, I)
        of_x = None
        if ctx.needs_input_grad[0]:
            of_x = of_y @ weight  # (T, I)
            if mask is None:
                of_x.addmm_(of_inner, first)
            else:
                of_x.addcmul_(of_inner @ first, mask)
        return of_x, None, of_first, of_second, None, None


def draw_mask(like: Tensor, share: float) -> tuple[Tensor, float]:
    """Ones and zeros of its shape and type, and the share that is expected to be ones: 1 - ``share`` to one in 65,536."""
    least = round(share * _STEPS)
    draws = torch.empty(-(-like.numel() // _PER_DRAW), dtype=torch.int64).random_(-(2**63), None)
    bits = draws.view(torch.int16)[: like.numel()]
    return (bits >= least - _STEPS // 2).to(like.dtype).view(like.shape), 1 - least / _STEPS
