"""The head's log-probabilities, where nothing of the head is trained: with the gradient to the states kept from the forward
pass.

For a state h, logits z = s h W^T and p = softmax(z), the gradient of log p[label] to h is s (W[label] - p W). It depends on
no later layer but for one factor, so the forward pass computes it while it has p, and the backward pass needs none of the
products with W again: two instead of TRL's three.

Shapes: N scored tokens, H the width of the states, V the vocabulary, C tokens of a chunk."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import torch
import trl.trainer.utils
from torch import Tensor
from trl.kernels import ChunkedLogProbFunction

from rl.lm.token_tree.attention import NATS

Outputs = tuple[Tensor, Tensor | None, Tensor | None, Tensor | None, Tensor | None]

_UNDERSTOOD: Final = {"log_probs", "entropy", "mean_logits", "is_top1"}
_BYTES: Final = 32 * 2**20
"""That the logits of a chunk may take."""
_WORDS: Final = 512
"""Words of a product on the way to the logits: one of all words takes one and a half times as long."""
_FEWEST: Final = 32
"""Tokens of a chunk, however large the vocabulary."""


@contextmanager
def kept_gradients() -> Iterator[None]:
    """Within the block TRL's fused head keeps gradients, where it can."""
    before = trl.trainer.utils._ChunkedLogProbFunction
    trl.trainer.utils._ChunkedLogProbFunction = _Head
    try:
        yield
    finally:
        trl.trainer.utils._ChunkedLogProbFunction = before


class _Head:
    """Stands where TRL has ``ChunkedLogProbFunction``."""

    @staticmethod
    def apply(
        hidden: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        targets: Tensor,
        temperature: float,
        chunk_size: int,
        softcap: float | None,
        logit_scale: float,
        outputs: tuple[str, ...],
    ) -> Outputs:
        trained = torch.is_grad_enabled() and (weight.requires_grad or (bias is not None and bias.requires_grad))
        if trained or bias is not None or softcap is not None or set(outputs) - _UNDERSTOOD:
            whole: Outputs = ChunkedLogProbFunction.apply(
                hidden, weight, bias, targets, temperature, chunk_size, softcap, logit_scale, outputs
            )
            return whole
        scores, entropy, mean_logits, is_top1 = _KeptGradient.apply(
            hidden, weight, targets, logit_scale / temperature, outputs
        )
        return scores, entropy, None, mean_logits, is_top1


class _KeptGradient(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, weight: Tensor, targets: Tensor, scale: float, outputs: tuple[str, ...]
    ) -> tuple[Tensor, Tensor | None, Tensor | None, Tensor | None]:
        device = hidden.device.type
        dtype = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else hidden.dtype
        states, words = hidden.to(dtype), weight.to(dtype)  # (N, H), (V, H)
        scores = hidden.new_empty(len(hidden), dtype=torch.float32)  # (N,)
        entropy = torch.empty_like(scores) if "entropy" in outputs else None
        is_top1 = torch.empty_like(targets, dtype=torch.bool) if "is_top1" in outputs else None
        expected = torch.empty_like(states) if ctx.needs_input_grad[0] else None  # p W, (N, H)
        tokens = min(max(_BYTES // (4 * len(words)), _FEWEST), len(states))
        # one for all chunks: new pages are slow
        memory = hidden.new_empty((2, tokens, len(words)), dtype=torch.float32)
        for start in range(0, len(states), tokens):
            part = slice(start, start + tokens)
            logits, powers = memory[:, : len(states[part])]  # (C, V) each
            _multiply(states[part], words, scale / NATS, logits)  # in bits
            logits -= logits.amax(dim=1, keepdim=True)
            torch.exp2(logits, out=powers)
            sums = powers.sum(dim=1)  # (C,): powers / sums are p
            scores[part] = (logits.gather(1, targets[part, None])[:, 0] - sums.log2()) * NATS
            if entropy is not None:
                entropy[part] = (sums.log2() - torch.linalg.vecdot(powers, logits) / sums) * NATS
            if is_top1 is not None:
                is_top1[part] = logits.argmax(dim=1) == targets[part]
            if expected is not None:
                torch.mm(powers.to(dtype), words, out=expected[part])
                expected[part] /= sums[:, None]
        mean_logits = None
        if "mean_logits" in outputs:
            # (H,): a product, which bfloat16 is fast at
            total = torch.mm(words.new_ones(1, len(words)), words)[0].float()
            mean_logits = states.float() @ total * (scale / len(words))
        if expected is not None:
            ctx.save_for_backward((words[targets] - expected).mul_(scale))  # d log p[target] / d h, (N, H)
        ctx.dtype = hidden.dtype
        ctx.set_materialize_grads(False)
        ctx.mark_non_differentiable(*(output for output in (mean_logits, is_top1) if output is not None))
        return scores, entropy, mean_logits, is_top1

    @staticmethod
    def backward(
        ctx: Any, of_scores: Tensor | None, of_entropy: Tensor | None, *others: Tensor | None
    ) -> tuple[Tensor | None, None, None, None, None]:
        if of_entropy is not None:
            raise NotImplementedError("the gradient of the entropy is not kept: train with --no-fast")
        if of_scores is None:
            return None, None, None, None, None
        (kept,) = ctx.saved_tensors
        return (kept * of_scores[:, None]).to(ctx.dtype), None, None, None, None


def _multiply(states: Tensor, words: Tensor, scale: float, logits: Tensor) -> None:
    """Fills ``logits``, (C, V) in float32, with those of ``states``, (C, H), times ``scale``."""
    if words.dtype != logits.dtype:
        logits.copy_(torch.mm(states, words.t())).mul_(scale)
        return
    for some, of_some in zip(words.split(_WORDS), logits.split(_WORDS, dim=1), strict=True):
        torch.addmm(of_some, states, some.t(), beta=0, alpha=scale, out=of_some)
