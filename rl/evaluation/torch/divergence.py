"""How far a model has moved from its base model: their Kullback-Leibler divergence on the model's own answers.

KL = the mean over answer tokens of the sum over v of p(v) (log p(v) - log base(v)).

Shapes: B sequences of one forward pass, L tokens of the longest of them, T of the longest answer, V tokens in the
vocabulary.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext

import torch
from peft import PeftModel
from torch import Tensor
from transformers import PreTrainedModel

from rl.lm.generating import Ids
from rl.lm.log_probs import batches

LOGITS_AT_ONCE = 2**25
"""Numbers in memory for each of the two models; one answer may need more."""


@torch.inference_mode()
def divergence(base: PreTrainedModel, model: torch.nn.Module, sequences: Sequence[tuple[Ids, Ids]]) -> float | None:
    """Mean over the tokens of the answers, in nats; exact: over the whole vocabulary at each token. None without a token.

    ``sequences``: token ids of prompts and answers. ``model``: ``base`` with an adapter in place, or another whole model.
    """
    parts = list(_at_each_token(base, model, sequences))
    return float(torch.cat(parts).double().mean()) if parts else None


def _at_each_token(
    base: PreTrainedModel, model: torch.nn.Module, sequences: Sequence[tuple[Ids, Ids]]
) -> Iterator[Tensor]:
    lengths = [len(prompt) + len(answer) for prompt, answer in sequences]
    # tokens a pass: B x L of them at most, so that logits (B, T, V) never hold more than LOGITS_AT_ONCE numbers
    rows = LOGITS_AT_ONCE // base.config.get_text_config().vocab_size
    for batch in batches(lengths, rows):
        part = [sequences[number] for number in batch]
        new = _log_probs(model, part)
        with _without_adapter(model):
            old = _log_probs(base, part)
        # divergence at each token, (B, T, V) to (B, T); answers are at the end of the rows, shorter ones behind padding
        kl = (new.exp() * (new - old)).sum(-1)
        for row, (_, answer) in enumerate(part):
            yield kl[row, kl.shape[1] - len(answer) :]


def _without_adapter(model: torch.nn.Module) -> AbstractContextManager[None]:
    """An adapter is inside of its base model's layers."""
    return model.disable_adapter() if isinstance(model, PeftModel) else nullcontext()


def _log_probs(model: torch.nn.Module, sequences: Sequence[tuple[Ids, Ids]]) -> Tensor:
    """(B, T, V): what is said of each token before it comes. Padded on the left, so that the answers end together."""
    device = next(model.parameters()).device
    longest = max(len(prompt) + len(answer) for prompt, answer in sequences)
    answer_tokens = max(len(answer) for _, answer in sequences)
    gaps = [longest - len(prompt) - len(answer) for prompt, answer in sequences]
    # padded on the left, (B, L); positions are counted from each sequence's first token
    ids = torch.tensor(
        [[0] * gap + prompt + answer for gap, (prompt, answer) in zip(gaps, sequences, strict=True)], device=device
    )
    mask = torch.tensor([[0] * gap + [1] * (longest - gap) for gap in gaps], device=device)
    positions = (mask.cumsum(-1) - 1).clamp(min=0)
    output = model(
        input_ids=ids, attention_mask=mask, position_ids=positions, use_cache=False, logits_to_keep=answer_tokens + 1
    )
    logits: Tensor = output.logits[:, :-1]  # (B, T + 1, V) less what the last token predicts
    return logits.float().log_softmax(-1)
