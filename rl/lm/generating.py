"""Tokens after each of some prompts: the likeliest, so that the same model says the same again, or sampled ones.

Shapes: B prompts, P tokens of the longest of them, T tokens of the longest answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from rl.lm import loading

Ids = list[int]


@torch.no_grad()
def likeliest(
    model: PreTrainedModel | torch.nn.Module, tokenizer: PreTrainedTokenizerBase, prompts: Sequence[Ids], most: int
) -> list[Ids]:
    """The likeliest answers, at most ``most`` tokens each, with the end token; the model is in evaluation mode."""
    return _generate(model, tokenizer, prompts, most, do_sample=False, temperature=None, top_p=None, top_k=None)


@torch.no_grad()
def sample(
    model: PreTrainedModel | torch.nn.Module,
    tokenizer: PreTrainedTokenizerBase,
    prompts: Sequence[Ids],
    most: int,
    temperature: float,
    top_p: float,
) -> list[Ids]:
    """The same, drawn by torch's global generator: the caller seeds it."""
    return _generate(model, tokenizer, prompts, most, do_sample=True, temperature=temperature, top_p=top_p, top_k=0)


def _generate(
    model: PreTrainedModel | torch.nn.Module,
    tokenizer: PreTrainedTokenizerBase,
    prompts: Sequence[Ids],
    most: int,
    **how: Any,
) -> list[Ids]:
    """``how``: in full, so that the sampling settings of the model's own generation config are taken back."""
    width = max(map(len, prompts))
    ends = _ends(model, tokenizer)
    pad = tokenizer.pad_token_id
    # padded on the left, so that every prompt ends where its answer begins: (B, P)
    ids = torch.tensor([[pad] * (width - len(prompt)) + prompt for prompt in prompts], device=loading.device())
    mask = torch.tensor([[0] * (width - len(prompt)) + [1] * len(prompt) for prompt in prompts], device=ids.device)
    # (B, P + T)
    output = model.generate(  # type: ignore[operator]
        input_ids=ids,
        attention_mask=mask,
        max_new_tokens=most,
        eos_token_id=ends,
        pad_token_id=pad,
        **how,
    )
    # without the prompt, and without the padding behind the end
    return [_up_to_its_end(row, ends) for row in output[:, width:].tolist()]


def stop_at(model: Any, ends: Iterable[int]) -> None:
    """Whatever generates with the model ends a turn at these tokens too."""
    model.generation_config.eos_token_id = sorted({*ends, *_declared_ends(model)})


def _ends(model: Any, tokenizer: PreTrainedTokenizerBase) -> list[int]:
    """All tokens that end an answer, as in training."""
    return list({tokenizer.eos_token_id, *_declared_ends(model)} - {None})


def _declared_ends(model: Any) -> set[int]:
    declared = model.generation_config.eos_token_id
    return {*(declared if isinstance(declared, list) else [declared])} - {None}


def _up_to_its_end(ids: Ids, ends: Sequence[int]) -> Ids:
    first = next((position for position, token in enumerate(ids) if token in ends), len(ids))
    return ids[: first + 1]
