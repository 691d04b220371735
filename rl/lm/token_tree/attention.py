"""Attention within a tree of tokens: each token sees those before it in its own row, and no other.

Explicit matrix products over stretches of queries, of which the weights are computed again in the backward pass, as
FlashAttention does (Dao et al., 2022): what is kept of them is one number a query. Scores are in bits, not nats: their
exponentials are powers of two, which PyTorch computes three times as fast as those of e on a CPU.

Shapes: N tokens of the tree, H heads in K groups that share keys and values, G = H / K, D numbers a head; a stretch has
C queries and M keys."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from rl.lm.token_tree.plan import Stretch, TokenTree

NATS = math.log(2)
"""In a bit."""


def attend(
    _module: torch.nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    _attention_mask: Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    *,
    token_tree: TokenTree,
    **named: Any,
) -> tuple[Tensor, None]:
    """An attention function of transformers: (1, H, N, D) to (1, N, H, D)."""
    if dropout or any(named.get(name) is not None for name in ("s_aux", "position_bias")):
        raise ValueError("attention with dropout, sinks or a bias of positions has no tree")
    shape = _Scores(scaling if scaling is not None else query.shape[-1] ** -0.5, named.get("softcap"))
    stretches = token_tree.stretches(named.get("sliding_window"))
    # under autocast rotated queries and keys are wider than values; torch's own attention narrows them too
    query, key = query.to(value.dtype), key.to(value.dtype)
    output: Tensor = _TreeAttention.apply(query[0], key[0], value[0], stretches, shape)
    return output.transpose(0, 1)[None], None


@dataclass(frozen=True, slots=True)
class _Scores:
    """From queries and keys to what the softmax takes."""

    scale: float
    softcap: float | None

    def of(self, queries: Tensor, keys: Tensor, part: Stretch) -> tuple[Tensor, Tensor | None]:
        """(K, G C, D) and (K, M, D) to (K, G C, M), in bits, -inf where a query does not see a key; and the slope of the
        cap, where there is one. In float32."""
        scores = (queries @ keys.transpose(1, 2)).float()
        slope = None
        if self.softcap:
            capped = scores.mul_(self.scale / self.softcap).tanh_()
            scores, slope = capped * (self.softcap / NATS), 1 - capped.square()
        else:
            scores.mul_(self.scale / NATS)
        mask = part.mask.to(scores.device)  # (C, at most M): of the last keys
        of_last = scores.view(len(scores), -1, part.queries, scores.shape[-1])[..., -mask.shape[1] :]
        of_last += mask
        return scores, slope


class _TreeAttention(torch.autograd.Function):
    """query (H, N, D), key and value (K, N, D) to (H, N, D)."""

    @staticmethod
    def forward(
        ctx: Any, query: Tensor, key: Tensor, value: Tensor, stretches: Sequence[Stretch], shape: _Scores
    ) -> Tensor:
        # (K, G, N, D): heads that share keys stand together
        query = query.reshape(len(key), -1, *query.shape[1:])
        output = query.new_empty(*query.shape[:-1], value.shape[-1])
        totals = torch.empty(query.shape[:-1], dtype=torch.float32, device=query.device)  # (K, G, N)
        with torch.autocast(query.device.type, enabled=False):
            for part in stretches:
                keys, values = _gather(key, part), _gather(value, part)
                scores, _ = shape.of(_of(query, part), keys, part)  # (K, G C, M)
                largest = scores.amax(dim=-1, keepdim=True)  # (K, G C, 1)
                weights = scores.sub_(largest).exp2_()
                total = weights.sum(dim=-1, keepdim=True)
                _put(output, part, (weights.to(values.dtype) @ values).div_(total))
                _put(totals[..., None], part, total.log2_().add_(largest))
        ctx.save_for_backward(query, key, value, output, totals)
        ctx.stretches, ctx.shape = stretches, shape
        return output.view(-1, *output.shape[2:])

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        query, key, value, output, totals = ctx.saved_tensors
        gradient = gradient.reshape(output.shape)
        of_query, of_key, of_value = torch.empty_like(query), torch.zeros_like(key), torch.zeros_like(value)
        # (K, G, N, 1): what the softmax takes off each query's gradient
        mean = (gradient.float() * output.float()).sum(dim=-1, keepdim=True)
        for part in ctx.stretches:
            own, keys, values, above = _of(query, part), _gather(key, part), _gather(value, part), _of(gradient, part)
            scores, slope = ctx.shape.of(own, keys, part)
            weights = scores.sub_(_of(totals[..., None], part)).exp2_()  # (K, G C, M)
            _add(of_value, part, weights.to(values.dtype).transpose(1, 2) @ above)
            of_scores = (above @ values.transpose(1, 2)).float().sub_(_of(mean, part)).mul_(weights)
            if slope is not None:
                of_scores.mul_(slope)
            of_scores = of_scores.to(query.dtype)
            _put(of_query, part, of_scores @ keys)
            _add(of_key, part, of_scores.transpose(1, 2) @ own)
        of_query.mul_(ctx.shape.scale)
        of_key.mul_(ctx.shape.scale)
        return of_query.view(-1, *of_query.shape[2:]), of_key, of_value, None, None


def _of(values: Tensor, part: Stretch) -> Tensor:
    """(K, G, N, D) to (K, G C, D)."""
    return values[:, :, part.start : part.stop].reshape(len(values), -1, values.shape[-1])


def _put(target: Tensor, part: Stretch, values: Tensor) -> None:
    """(K, G C, D) into (K, G, N, D)."""
    target[:, :, part.start : part.stop] = values.view(len(values), -1, part.queries, values.shape[-1])


def _gather(values: Tensor, part: Stretch) -> Tensor:
    """(K, N, D) to (K, M, D)."""
    pieces = [values[:, start:stop] for start, stop in part.path]
    return pieces[0] if len(pieces) == 1 else torch.cat(pieces, dim=1)


def _add(target: Tensor, part: Stretch, values: Tensor) -> None:
    """(K, M, D) onto (K, N, D)."""
    at = 0
    for start, stop in part.path:
        target[:, start:stop] += values[:, at : at + stop - start]
        at += stop - start
