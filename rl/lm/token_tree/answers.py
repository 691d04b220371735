"""Log-probabilities of answers, by TRL's fused head, over the tree of their rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import torch
from torch import Tensor
from transformers import PreTrainedModel
from trl.trainer.utils import FusedCausalLMOutput

from rl.lm.token_tree.head import kept_gradients
from rl.lm.token_tree.plan import IGNORED
from rl.lm.token_tree.rows import Rows

_UNDERSTOOD: Final = {"input_ids", "attention_mask", "labels", "use_cache", "num_items_in_batch", "fused_lm_head"}
_OF_TOKENS: Final = ("log_probs", "entropy", "log_sum_sq_probs", "mean_logits", "is_top1")


def takes(named: Mapping[str, Any]) -> bool:
    """Whether a call is one that scores answers."""
    return bool(named.get("fused_lm_head")) and "input_ids" in named and not named.keys() - _UNDERSTOOD


def forward(
    model: PreTrainedModel, plain: Callable[..., Any], rows: Rows, named: Mapping[str, Any]
) -> FusedCausalLMOutput:
    """``plain``: the model's forward with TRL's head, which takes labels that are shifted already."""
    following = named["labels"][:, 1:]  # (R, L - 1): the label of a token is the next one
    last = following.new_full((len(following), 1), IGNORED)
    of_rows = rows.cut(torch.cat([following, last], dim=1))
    labels = rows.tree.flatten(of_rows, IGNORED).to(following.device)
    with kept_gradients():
        output = plain(**rows.inputs(), shift_labels=labels, fused_lm_head=True, use_cache=False)
    scored = following != IGNORED
    return _of_rows(output, rows.places[:, : following.shape[1]], scored, named.get("num_items_in_batch"))


def _of_rows(output: FusedCausalLMOutput, places: Tensor, scored: Tensor, items: Any) -> FusedCausalLMOutput:
    """The fields of tokens, (1, N) each, as those of rows, (R, L - 1) each."""
    if places.shape != scored.shape:  # rows that are all padded at their ends
        places = torch.nn.functional.pad(places, (0, scored.shape[1] - places.shape[1]))
    fields = {
        name: torch.where(scored, values[0][places], values.new_zeros(()))
        for name in _OF_TOKENS
        if (values := getattr(output, name)) is not None
    }
    loss = -fields["log_probs"].sum() / (scored.sum().clamp(min=1) if items is None else items)
    return FusedCausalLMOutput(loss=loss, label_mask=scored, **fields)
