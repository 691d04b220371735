"""Passes of LoRA's linear layers with fewer products and sums of their own.

PEFT computes y = x W^T + s dropout(x) A^T B^T as three products, a scaling and a sum, each a tensor of its own, and draws
its dropout by a generator that takes longer than the products. Here the sums are the products' own, and of sixteen random
bits an element decides: the share that is dropped is right to one in 65,536.

Shapes: T tokens, I and O the widths before and after the layer, R the rank.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from typing import Any, Final

import torch
from peft.tuners.lora import Linear
from torch import Tensor, nn

from rl.lm.replaced_forwards import replaced_forwards

_STEPS: Final = 2**16
"""In which a share is drawn."""
_PER_DRAW: Final = 4
"""Elements that the 64 bits of a draw decide about."""


@contextmanager
def fused_adapters(model: nn.Module) -> Iterator[bool]:
    """Whether layers of the model are fused within the block. Those that are anything but plain LoRA over a plain linear
    layer on a CPU are computed as ever, and so is every layer while its adapter is off or there is more than one."""
    layers = [layer for layer in model.modules() if type(layer) is Linear and _is_plain(layer)]
    with replaced_forwards({layer: _fuse(layer) for layer in layers}):
        yield bool(layers)


def _is_plain(layer: Linear) -> bool:
    base = layer.get_base_layer()
    return type(base) is nn.Linear and base.weight.device.type == "cpu" and not base.weight.requires_grad


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
