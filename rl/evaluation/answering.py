"""What each model answers to held-out prompts: one answer each, always the likeliest token, so that it is the same again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from rl.records import GeneratedAnswer, Report
from rl.training import loading
from rl.training.encoding import encode
from rl.training.resources import resource_advice

BATCH = 8
"""Prompts at once."""
Ids = list[int]


def answer_versions(
    base_model: str,
    adapters: Mapping[str, Path | None],
    rows: Sequence[Mapping[str, Any]],
    *,
    max_length: int,
    max_new_tokens: int,
    report: Report,
    precision: str = "auto",
) -> dict[str, list[GeneratedAnswer | None]]:
    """Answers to the same prompts under each adapter or whole model, None being the base model, which is loaded once.

    A row has a ``prompt``, a list of messages; each list has one place for each row, in their order, with None where the
    prompt leaves no room for ``max_new_tokens``. Raises UsageError for a base model that is none, and TrainingFailed for a
    model or an adapter that cannot be loaded.
    """
    loading.quiet()
    loading.leave_a_core_free()
    report("stage", {"name": "loading the base model"})
    tokenizer, model = loading.load_tokenizer(base_model), loading.load_base(base_model, precision).eval()
    room = min(max_length, loading.context_length(model.config)) - max_new_tokens
    prompts = [row["prompt_ids"] for row in encode(tokenizer, rows, len(rows), report, ())]
    fitting = [number for number, ids in enumerate(prompts) if len(ids) <= room]
    if lost := len(prompts) - len(fitting):
        report("log", {"text": f"{lost} of {len(prompts)} held-out prompts leave no room for an answer; not asked"})
    found: dict[str, list[GeneratedAnswer | None]] = {}
    for name, adapter in adapters.items():
        report("stage", {"name": f"answering as {name}"})
        found[name] = [None] * len(prompts)
        with resource_advice(), loading.adapted(model, adapter) as adapted:
            answers = _answers(adapted, tokenizer, [prompts[number] for number in fitting], max_new_tokens, report)
            for number, answer in zip(fitting, answers, strict=True):
                found[name][number] = answer
    return found


def _answers(
    model: torch.nn.Module, tokenizer: PreTrainedTokenizerBase, prompts: Sequence[Ids], most: int, report: Report
) -> Iterator[GeneratedAnswer]:
    for start in range(0, len(prompts), BATCH):
        batch = prompts[start : start + BATCH]
        for prompt, ids in zip(batch, _generated(model, tokenizer, batch, most), strict=True):
            yield GeneratedAnswer(tokenizer.decode(ids, skip_special_tokens=True), len(prompt), len(ids))
        report("step", {"step": start + len(batch), "total_steps": len(prompts), "metrics": {}})


@torch.no_grad()
def _generated(
    model: PreTrainedModel | torch.nn.Module, tokenizer: PreTrainedTokenizerBase, prompts: Sequence[Ids], most: int
) -> list[Ids]:
    """Each up to its end, which is part of it."""
    width = max(map(len, prompts))
    ends = _ends(model, tokenizer)
    pad = tokenizer.pad_token_id
    ids = torch.tensor([[pad] * (width - len(prompt)) + prompt for prompt in prompts], device=loading.device())
    mask = torch.tensor([[0] * (width - len(prompt)) + [1] * len(prompt) for prompt in prompts], device=ids.device)
    output = model.generate(  # type: ignore[operator]
        input_ids=ids,
        attention_mask=mask,
        max_new_tokens=most,
        do_sample=False,
        temperature=None,
        top_p=None,
        top_k=None,
        eos_token_id=ends,
        pad_token_id=pad,
    )
    return [_up_to_its_end(row, ends) for row in output[:, width:].tolist()]


def _ends(model: Any, tokenizer: PreTrainedTokenizerBase) -> list[int]:
    """All tokens that end an answer, as in training."""
    said = model.generation_config.eos_token_id
    return list({tokenizer.eos_token_id, *(said if isinstance(said, list) else [said])} - {None})


def _up_to_its_end(ids: Ids, ends: Sequence[int]) -> Ids:
    first = next((place for place, token in enumerate(ids) if token in ends), len(ids))
    return ids[: first + 1]
