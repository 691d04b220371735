"""How far a model has moved from its base model, on the model's own answers: their Kullback-Leibler divergence, how
likely the base model finds these answers, and how well it finds them to fit their prompts.

KL = the mean over answer tokens of the sum over v of p(v) (log p(v) - log base(v)); the likelihood is that of log base(a)
of the tokens a of the answers. An answer fits its prompt as often as the base model finds it likelier there than behind
another prompt.

Shapes: B sequences of one forward pass, L tokens of the longest of them, T of the longest answer, V tokens in the
vocabulary."""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from statistics import fmean

import torch
from peft import PeftModel
from torch import Tensor
from transformers import PreTrainedModel

from rl.lm.generating import Ids
from rl.lm.log_probs import batches
from rl.lm.shared_prompts import pad_left

LOGITS_AT_ONCE = 2**25
"""Numbers in memory for each of the two models; one answer may need more."""
OTHERS = 2
"""Prompts that each answer is held against."""

Sequences = Sequence[tuple[Ids, Ids]]
"""Token ids of prompts and answers."""

LogProbs = dict[int, Tensor]
"""Number of a sequence to the log-probabilities of its answer's tokens under the base model, (T,)."""


@torch.inference_mode()
def divergence(base: PreTrainedModel, model: torch.nn.Module, sequences: Sequences) -> tuple[float, LogProbs] | None:
    """The divergence is a mean over the tokens of the answers, in nats, and exact: over the whole vocabulary at each token.
    None without a token. ``model``: ``base`` with an adapter in place, or another whole model."""
    kl: LogProbs = {}
    likely: LogProbs = {}
    for numbers in _batches(base, sequences):
        part = [sequences[number] for number in numbers]
        new = _log_probs(model, part)
        with without_adapter(model):
            old = _log_probs(base, part)
        # divergence at each token, (B, T, V) to (B, T)
        kl |= zip(numbers, _of_answers((new.exp() * (new - old)).sum(-1), part), strict=True)
        likely |= zip(numbers, _of_answers(_of_tokens(old, part), part), strict=True)
    mean = mean_of(kl)
    return None if mean is None else (mean, likely)


@torch.inference_mode()
def log_probs_of(base: PreTrainedModel, sequences: Sequences) -> LogProbs:
    likely: LogProbs = {}
    for numbers in _batches(base, sequences):
        part = [sequences[number] for number in numbers]
        likely |= zip(numbers, _of_answers(_of_tokens(_log_probs(base, part), part), part), strict=True)
    return likely


def likelihood(base: PreTrainedModel, sequences: Sequences) -> float | None:
    """Mean log-probability of the answers' tokens under the base model; None without a token."""
    return mean_of(log_probs_of(base, sequences))


def fit_to_prompts(base: PreTrainedModel, sequences: Sequences, own: LogProbs) -> float | None:
    """How often an answer is likelier behind its own prompt, ``own``, than behind another, 0 to 1, by OTHERS other prompts
    each; as likely is half. None of fewer than two answers."""
    fits: list[float] = []
    for step in range(1, min(OTHERS + 1, len(sequences))):
        turned = [(sequences[number - step][0], answer) for number, (_, answer) in enumerate(sequences)]
        other = log_probs_of(base, turned)
        gains = [float(own[number].sum() - other[number].sum()) for number in own]
        fits += [(gain > 0) + (gain == 0) / 2 for gain in gains]
    return fmean(fits) if fits else None


def mean_of(values: LogProbs) -> float | None:
    """Over all tokens; None without one."""
    return float(torch.cat(list(values.values())).double().mean()) if values else None


def _batches(base: PreTrainedModel, sequences: Sequences) -> Iterator[list[int]]:
    """B x L tokens a pass at most, so that logits (B, T, V) never hold more than LOGITS_AT_ONCE numbers."""
    lengths = [len(prompt) + len(answer) for prompt, answer in sequences]
    return batches(lengths, LOGITS_AT_ONCE // base.config.get_text_config().vocab_size)


def _of_tokens(log_probs: Tensor, sequences: Sequences) -> Tensor:
    """(B, T, V) to (B, T): of the tokens that the answers have."""
    most = log_probs.shape[1]
    ids = torch.tensor([[0] * (most - len(answer)) + answer for _, answer in sequences], device=log_probs.device)
    return log_probs.gather(2, ids[:, :, None])[:, :, 0]


def _of_answers(values: Tensor, sequences: Sequences) -> list[Tensor]:
    """(B, T) to the values of each answer: they are at the end of the rows, shorter ones behind padding."""
    return [row[len(row) - len(answer) :] for row, (_, answer) in zip(values, sequences, strict=True)]


def without_adapter(model: torch.nn.Module) -> AbstractContextManager[None]:
    """An adapter is inside of its base model's layers."""
    return model.disable_adapter() if isinstance(model, PeftModel) else nullcontext()


def _log_probs(model: torch.nn.Module, sequences: Sequences) -> Tensor:
    """(B, T, V): what is said of each token before it comes. Padded on the left, so that the answers end together."""
    device = next(model.parameters()).device
    answer_tokens = max(len(answer) for _, answer in sequences)
    # padded on the left, (B, L); positions are counted from each sequence's first token
    ids, mask = (padded.to(device) for padded in pad_left([prompt + answer for prompt, answer in sequences], 0))
    positions = (mask.cumsum(-1) - 1).clamp(min=0)
    output = model(
        input_ids=ids, attention_mask=mask, position_ids=positions, use_cache=False, logits_to_keep=answer_tokens + 1
    )
    logits: Tensor = output.logits[:, :-1]  # (B, T + 1, V) less what the last token predicts
    return logits.float().log_softmax(-1)
