"""Six answers to one prompt, of a model with an adapter: by transformers' own generation, and as this project generates."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import torch
from peft import LoraConfig, PeftModel, get_peft_model

from benchmarks.speed_contest import Way, compete
from rl.lm import loading
from rl.lm.generating import likeliest
from rl.lm.shared_prompts import pad_left

ANSWERS: Final = 6
TOKENS: Final = 64
TRANSFORMERS: Final = "transformers"
QUESTION: Final = (
    "Write a long story about the lost ships of the northern sea, their captains, and who went to look for them."
)


def run(base: Path, folder: Path, rounds: int, tell: Callable[[str], None]) -> list[dict[str, Any]]:
    """The "loss" is the number of tokens that differ from transformers'."""
    tokenizer, model = loading.load_tokenizer(str(base)), _load(base)
    prompt = tokenizer.apply_chat_template([{"role": "user", "content": QUESTION}], add_generation_prompt=True)
    prompts = [list(prompt["input_ids"])] * ANSWERS
    expected: list[list[int]] = []

    def by_transformers(number: int) -> float:
        expected[:] = generate_plainly(model, tokenizer, prompts)
        return 0.0

    def by_ours(number: int) -> float:
        answers = likeliest(model, tokenizer, prompts, TOKENS)
        return float(sum(_different(*both) for both in zip(answers, expected, strict=True)))

    return compete([Way(TRANSFORMERS, by_transformers), Way("ours", by_ours)], rounds, tell, warm=True)


def _load(base: Path) -> PeftModel:
    torch.manual_seed(0)
    plain = loading.load_base(str(base), "fp32")
    model = get_peft_model(plain, LoraConfig(r=16, target_modules="all-linear", init_lora_weights=False)).eval()
    for name, weight in model.named_parameters():
        if ".lora_" in name:
            weight.data.mul_(0.02 / weight.data.std())
    return model


@torch.no_grad()
def generate_plainly(
    model: Any, tokenizer: Any, prompts: Sequence[list[int]], most: int = TOKENS, **how: Any
) -> list[list[int]]:
    """By transformers: the likeliest answers, or drawn as ``how`` says; padded behind their ends."""
    ids, mask = pad_left(prompts, tokenizer.pad_token_id)
    ends = {"eos_token_id": tokenizer.eos_token_id, "pad_token_id": tokenizer.pad_token_id}
    settings = {"do_sample": False, "max_new_tokens": most, **ends, **how}
    whole = model.generate(input_ids=ids, attention_mask=mask, **settings)
    answers: list[list[int]] = whole[:, ids.shape[1] :].tolist()
    return answers


def _different(ours: list[int], padded: list[int]) -> int:
    """``padded``: behind its end."""
    return sum(mine != other for mine, other in zip(ours, padded, strict=False)) + max(0, len(ours) - len(padded))
