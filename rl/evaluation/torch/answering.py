"""What each model answers to held-out prompts: one answer each, always the likeliest token, so that it is the same again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from transformers import PreTrainedTokenizerBase

from rl.base.records import GeneratedAnswer, Report
from rl.evaluation.torch.speaking import WhileLoaded
from rl.lm import loading
from rl.lm.encoding import answer_text, encode
from rl.lm.generating import Ids, likeliest
from rl.lm.log_probs import TOKENS_PER_BATCH, batches
from rl.lm.packed_layers import packed_layers
from rl.lm.resources import resource_advice


def answer_versions(
    base_model: str,
    adapters: Mapping[str, Path | None],
    rows: Sequence[Mapping[str, Any]],
    *,
    max_length: int,
    max_new_tokens: int,
    report: Report,
    precision: str = "auto",
    also: WhileLoaded | None = None,
) -> dict[str, list[GeneratedAnswer | None]]:
    """Answers to the same prompts under each adapter or whole model, None being the base model, which is loaded once.

    A row has a ``prompt``, a list of messages, and ``tools`` where they are offered; each list has one place for each row,
    in their order, with None where the prompt leaves no room for ``max_new_tokens``. ``also`` is called for each model while
    it is loaded. Raises UsageError for a base model that is none, and TrainingFailed for a model or an adapter that cannot
    be loaded.
    """
    loading.quiet()
    loading.leave_a_core_free()
    report("stage", {"name": "loading the base model"})
    tokenizer, model = loading.load_tokenizer(base_model), loading.load_base(base_model, precision).eval()
    # prompts that leave room for a whole answer; the others stay None in their places
    room = min(max_length, loading.context_length(model.config)) - max_new_tokens
    prompts = [row.get("prompt_ids", ()) for row in encode(tokenizer, rows, len(rows), report, ())]
    fitting = [number for number, ids in enumerate(prompts) if 0 < len(ids) <= room]
    if too_long := len(prompts) - len(fitting):
        report("log", {"text": f"{too_long} of {len(prompts)} held-out prompts are too long, or refused; not asked"})
    answers_of: dict[str, list[GeneratedAnswer | None]] = {}
    for name, adapter in adapters.items():
        report("stage", {"name": f"answering as {name}"})
        answers_of[name] = [None] * len(prompts)
        with resource_advice(), loading.with_weights(model, adapter) as adapted:
            asked = [(rows[number], prompts[number]) for number in fitting]
            with packed_layers(adapted):
                answered = _answers(adapted, tokenizer, asked, max_new_tokens, report)
            for number, answer in zip(fitting, answered, strict=True):
                answers_of[name][number] = answer
            if also:
                also(name, tokenizer, model, adapted)
    return answers_of


def _answers(
    model: torch.nn.Module,
    tokenizer: PreTrainedTokenizerBase,
    asked: Sequence[tuple[Mapping[str, Any], Ids]],
    most: int,
    report: Report,
) -> list[GeneratedAnswer]:
    answers: dict[int, GeneratedAnswer] = {}
    for batch in batches([len(prompt) + most for _, prompt in asked], TOKENS_PER_BATCH[loading.device().type]):
        of_batch = [asked[number] for number in batch]
        generated = likeliest(model, tokenizer, [prompt for _, prompt in of_batch], most)
        for number, (row, prompt), ids in zip(batch, of_batch, generated, strict=True):
            answers[number] = GeneratedAnswer(answer_text(tokenizer, row, ids), len(prompt), len(ids))
        report("step", {"step": len(answers), "total_steps": len(asked), "metrics": {}})
    return [answers[number] for number in range(len(asked))]
