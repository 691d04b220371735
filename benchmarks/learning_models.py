"""SmolLM2 in memory: it answers, and versions of it are measured."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any, Final

import torch
from django.conf import settings

from rl.base.files import replacing
from rl.base.records import silent
from rl.config.embedded_models import SMOLLM2
from rl.lm import base_models, loading
from rl.lm.divergence import divergence

TOKENS: Final = 48
"""Of an answer."""
SAMPLED: Final = {"do_sample": True, "temperature": 0.9, "top_p": 0.95, "top_k": 0}
GREEDY: Final = {"do_sample": False, "temperature": None, "top_p": None, "top_k": None}
TOGETHER: Final = 32
TEXT: Final = Path(__file__).with_name("learning_text.txt")


@dataclass(slots=True)
class Base:
    folder: str
    tokenizer: Any
    model: Any


def load_base() -> Base:
    settings.DATA_DIR.mkdir(parents=True, exist_ok=True)
    folder = base_models.resolve(SMOLLM2, silent)
    loading.quiet()
    tokenizer = loading.load_tokenizer(folder)
    tokenizer.padding_side = "left"
    return Base(folder, tokenizer, loading.load_base(folder, "fp32").eval())


@torch.inference_mode()
def answer(
    base: Base, model: Any, prompts: Sequence[str], answers: int, how: dict[str, Any], seed: int
) -> list[list[str]]:
    """Of each prompt, whole sentences."""
    torch.manual_seed(seed)
    texts: list[list[str]] = []
    for start in range(0, len(prompts), TOGETHER):
        chats = [[{"role": "user", "content": prompt}] for prompt in prompts[start : start + TOGETHER]]
        # (B, P) to (B * N, P + T)
        ids = base.tokenizer.apply_chat_template(
            chats, add_generation_prompt=True, return_dict=True, return_tensors="pt", padding=True
        ).to(model.device)
        output = model.generate(**ids, max_new_tokens=TOKENS, num_return_sequences=answers, **how)
        given = [
            whole(text)
            for text in base.tokenizer.batch_decode(output[:, ids["input_ids"].shape[1] :], skip_special_tokens=True)
        ]
        texts += [given[first : first + answers] for first in range(0, len(given), answers)]
    return texts


def whole(text: str) -> str:
    """Up to the end of its last whole sentence; all of a text without one."""
    ends = [match.end() for match in re.finditer(r"[.!?](?=\s|$)(?<!\d\.)", text.strip())]
    return text.strip()[: ends[-1]] if ends else text.strip()


def sample_fixture(base: Base, prompts: Sequence[str], target: Path, seed: int) -> None:
    sampled = answer(base, base.model, prompts, 4, SAMPLED, seed)
    with replacing(target, "w") as file:
        for prompt, texts in zip(prompts, sampled, strict=True):
            file.writelines(json.dumps({"prompt": prompt, "answer": text}, ensure_ascii=False) + "\n" for text in texts)


@torch.inference_mode()
def perplexity(base: Base, model: Any) -> float:
    ids = base.tokenizer(TEXT.read_text(encoding="utf-8"), return_tensors="pt").input_ids.to(model.device)
    logits = model(input_ids=ids, use_cache=False).logits[0, :-1].float()
    return float(torch.nn.functional.cross_entropy(logits, ids[0, 1:]).exp())


def moved(base: Base, model: Any, prompts: Sequence[str], texts: Sequence[str]) -> float:
    """Nats a token from the base model, on the version's own greedy answers."""
    measured = divergence(base.model, model, token_ids(base, prompts, texts))
    return measured[0] if measured else 0.0


def token_ids(base: Base, prompts: Sequence[str], texts: Sequence[str]) -> list[tuple[list[int], list[int]]]:
    """What was asked and what was answered, with the end of the turn."""
    chats = [[{"role": "user", "content": prompt}] for prompt in prompts]
    asked = [base.tokenizer.apply_chat_template(chat, add_generation_prompt=True)["input_ids"] for chat in chats]
    return [(list(ids), base.tokenizer(text + "<|im_end|>").input_ids) for ids, text in zip(asked, texts, strict=True)]


def words(texts: Sequence[str]) -> float:
    return fmean(len(text.split()) for text in texts)
