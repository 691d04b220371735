"""Within ``shared_tokens`` a model's passes over whole rows run over the tree of their tokens instead.

Two calls are taken over, and give the same output, to rounding; every other call of the model is as ever:

- ``model(input_ids, attention_mask, labels, fused_lm_head=True)``, by which TRL 1.16 scores answers in all its trainers
  (``answers``);
- ``model(input_ids, attention_mask)`` of a model with a head that scores whole rows (``scores``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import wraps
from typing import Any, Final
from weakref import WeakKeyDictionary

import numpy as np
import torch
from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedModel
from transformers.masking_utils import sdpa_mask

from rl.base.records import Report
from rl.lm.loading import base_within
from rl.lm.replaced_forwards import replaced_forwards
from rl.lm.token_tree import answers, scores
from rl.lm.token_tree.attention import attend
from rl.lm.token_tree.rows import Rows

ATTENTION: Final = "token_tree"
AttentionInterface.register(ATTENTION, attend)
AttentionMaskInterface.register(ATTENTION, sdpa_mask)
LARGEST_DIFFERENCE: Final = {torch.float32: 1e-4, torch.bfloat16: 0.1, torch.float16: 0.02}
"""Between the last layer's states, in parts of the largest of them, above which the tree is not used."""
_SHARES: Final = "ratchet_shares_tokens"
_CHECKED: Final[WeakKeyDictionary[PreTrainedModel, str]] = WeakKeyDictionary()
"""What ``_why_not`` answered, while the model is in memory."""


@contextmanager
def shared_tokens(model: PreTrainedModel, report: Report) -> Iterator[bool]:
    """Whether beginnings of rows are shared within the block. ``model`` carries TRL's fused head or scores rows, and must
    have no dropout in its attention; one whose attention takes no tree, or that answers otherwise with it, is left as it is.
    So is one on a GPU, whose kernels for whole batches are faster."""
    if model.device.type != "cpu":
        yield False
        return
    if model not in _CHECKED:
        _CHECKED[model] = _why_not(model)
    if reason := _CHECKED[model]:
        report("log", {"text": f"beginnings that rows share are computed for each row ({reason})"})
        yield False
        return
    with replaced_forwards({model: _sharing(model)}):
        setattr(model, _SHARES, True)
        try:
            yield True
        finally:
            delattr(model, _SHARES)


def shares_tokens(model: torch.nn.Module) -> bool:
    """Whether a pass of the model, or of the one within its adapter, is a tree."""
    return hasattr(base_within(model), _SHARES)


def _sharing(model: PreTrainedModel) -> Callable[..., Any]:
    plain = model.forward
    kind = scores if hasattr(model, scores.HEAD) else answers

    @wraps(plain)
    def forward(*arguments: Any, **named: Any) -> Any:
        rows, given = None, _without_defaults(named)
        if not arguments and kind.takes(given) and not model.is_activation_checkpointing:
            rows = Rows.of(given["input_ids"], given.get("attention_mask"))
        if rows is None:
            return plain(*arguments, **named)
        with tree_attention(model):
            return kind.forward(model, plain, rows, given)

    return forward


def _without_defaults(named: Mapping[str, Any]) -> dict[str, Any]:
    """PEFT passes on what it was not given too."""
    given = {name: value for name, value in named.items() if value is not None}
    if given.get("return_dict"):
        del given["return_dict"]
    return given


@contextmanager
def tree_attention(model: PreTrainedModel) -> Iterator[None]:
    before = model.config._attn_implementation
    model.set_attn_implementation(ATTENTION)
    try:
        yield
    finally:
        model.set_attn_implementation(before)


def _why_not(model: PreTrainedModel) -> str:
    """What is wrong with the tree's states of two samples, or nothing."""
    if getattr(model.config.get_text_config(), "output_router_logits", False):
        return "experts are balanced over rows"
    words = model.config.get_text_config().vocab_size
    samples = torch.from_numpy(np.random.default_rng(0).integers(0, words, (2, 24)))
    samples[1, :16] = samples[0, :16]
    was_training = model.training
    model.eval()
    try:
        with torch.no_grad():
            plain = model.base_model(input_ids=samples, use_cache=False).last_hidden_state  # (2, 24, H)
            rows = Rows(samples, [(0, 24)] * 2)
            with tree_attention(model):
                states = model.base_model(**rows.inputs(), use_cache=False).last_hidden_state[0]  # (N, H)
    except Exception as error:  # whatever a model says about arguments that it does not know
        return f"{type(error).__name__}: {error}"
    finally:
        model.train(was_training)
    shared = torch.stack([states[at] for at in rows.tree.rows])
    difference = float((plain - shared).abs().max() / plain.abs().max())
    return "" if difference <= LARGEST_DIFFERENCE[plain.dtype] else f"its states differ by {difference:.2g}"
