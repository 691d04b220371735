"""Within ``shared_tokens`` a model's passes over whole rows run over the tree of their tokens instead.

Two calls are taken over, and give the same output, to rounding; every other call of the model is as ever:

- ``model(input_ids, attention_mask, labels, fused_lm_head=True)``, by which TRL 1.16 scores answers in all its trainers;
- ``model(input_ids, attention_mask)`` of a model with a head that scores whole rows, by its last token.

Shapes: R rows of at most L tokens, N tokens of the tree, H the width of the model."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import wraps
from typing import Any, Final
from weakref import WeakKeyDictionary

import numpy as np
import torch
from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedModel
from transformers.masking_utils import sdpa_mask
from transformers.modeling_outputs import SequenceClassifierOutput
from trl.trainer.utils import FusedCausalLMOutput

from rl.base.records import Report
from rl.lm.loading import base_within
from rl.lm.packed_layers import replaced_forwards
from rl.lm.token_tree.attention import attend
from rl.lm.token_tree.head import kept_gradients
from rl.lm.token_tree.plan import IGNORED, Rows

HEAD: Final = "score"
"""The attribute of a model under which transformers keeps its head for sequences."""
ATTENTION: Final = "token_tree"
AttentionInterface.register(ATTENTION, attend)
AttentionMaskInterface.register(ATTENTION, sdpa_mask)
LARGEST_DIFFERENCE: Final = {torch.float32: 1e-4, torch.bfloat16: 0.1, torch.float16: 0.02}
"""Between the last layer's states, in parts of the largest of them, above which the tree is not used."""
_OF_ROWS: Final = {"input_ids", "attention_mask", "use_cache"}
_OF_ANSWERS: Final = {*_OF_ROWS, "labels", "num_items_in_batch", "fused_lm_head"}
"""Arguments of the calls that are taken over."""
_OF_TOKENS: Final = ("log_probs", "entropy", "log_sum_sq_probs", "mean_logits", "is_top1")
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
    plain, scores_rows = model.forward, hasattr(model, HEAD)

    @wraps(plain)
    def forward(*arguments: Any, **named: Any) -> Any:
        given = {name: value for name, value in named.items() if value is not None}  # PEFT passes on defaults too
        if given.get("return_dict"):
            del given["return_dict"]
        understood = _OF_ROWS if scores_rows else _OF_ANSWERS
        is_of_trl = scores_rows or given.get("fused_lm_head")
        is_taken = is_of_trl and "input_ids" in given and not given.keys() - understood
        rows = None
        if not arguments and is_taken and not model.is_activation_checkpointing:
            rows = Rows.of(given["input_ids"], given.get("attention_mask"))
        if rows is None:
            return plain(*arguments, **named)
        with tree_attention(model):
            return _score_rows(model, rows) if scores_rows else _score_answers(plain, rows, given)

    return forward


def _score_rows(model: PreTrainedModel, rows: Rows) -> SequenceClassifierOutput:
    """Without the model's own forward, which would look for the last token of each row itself."""
    states = model.base_model(**rows.inputs(), use_cache=False).last_hidden_state  # (1, N, H)
    return SequenceClassifierOutput(logits=getattr(model, HEAD)(states[0, rows.ends]))  # (R, 1)


def _score_answers(plain: Callable[..., Any], rows: Rows, named: Mapping[str, Any]) -> FusedCausalLMOutput:
    """``plain``: the model's forward with TRL's head, which takes labels that are shifted already."""
    following = named["labels"][:, 1:]  # (R, L - 1): the label of a token is the next one
    last = following.new_full((len(following), 1), IGNORED)
    labels = rows.tree.flatten(rows.cut(torch.cat([following, last], dim=1)), IGNORED).to(following.device)
    with kept_gradients():
        output = plain(**rows.inputs(), shift_labels=labels, fused_lm_head=True, use_cache=False)
    # the fields of tokens, (1, N) each, as those of rows, (R, L - 1) each
    scored, places = following != IGNORED, rows.places[:, : following.shape[1]]
    if places.shape != scored.shape:  # rows that are all padded at their ends
        places = torch.nn.functional.pad(places, (0, scored.shape[1] - places.shape[1]))
    fields = {
        name: torch.where(scored, values[0][places], values.new_zeros(()))
        for name in _OF_TOKENS
        if (values := getattr(output, name)) is not None
    }
    items = named.get("num_items_in_batch")
    loss = -fields["log_probs"].sum() / (scored.sum().clamp(min=1) if items is None else items)
    return FusedCausalLMOutput(loss=loss, label_mask=scored, **fields)


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
    except Exception as error:  # noqa: BLE001  whatever a model says about arguments that it does not know
        return f"{type(error).__name__}: {error}"
    finally:
        model.train(was_training)
    shared = torch.stack([states[at] for at in rows.tree.rows])
    difference = float((plain - shared).abs().max() / plain.abs().max())
    return "" if difference <= LARGEST_DIFFERENCE[plain.dtype] else f"its states differ by {difference:.2g}"
