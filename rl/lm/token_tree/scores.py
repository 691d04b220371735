"""One number a row, by a head that reads its last token, over the tree of the rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from transformers import PreTrainedModel
from transformers.modeling_outputs import SequenceClassifierOutput

from rl.lm.token_tree.rows import Rows

HEAD: Final = "score"
"""The attribute of a model under which transformers keeps its head for sequences."""
_UNDERSTOOD: Final = {"input_ids", "attention_mask", "use_cache"}


def takes(named: Mapping[str, Any]) -> bool:
    """Whether a call is one that scores rows."""
    return "input_ids" in named and not named.keys() - _UNDERSTOOD


def forward(
    model: PreTrainedModel, plain: Callable[..., Any], rows: Rows, named: Mapping[str, Any]
) -> SequenceClassifierOutput:
    """``plain`` is not called: it would look for the last token of each row itself."""
    states = model.base_model(**rows.inputs(), use_cache=False).last_hidden_state  # (1, N, H)
    return SequenceClassifierOutput(logits=getattr(model, HEAD)(states[0, rows.ends]))  # (R, 1)
