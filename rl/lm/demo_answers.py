"""The demo's answers, sampled from SmolLM2: for each question a long one, and some for which a hidden instruction asked for
few words. All are cut at their last whole sentence, the short ones at two sentences.

The same seed gives the same answers on the same kind of machine.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import torch

from rl.base.files import replacing
from rl.base.records import Message, Report
from rl.base.template_settings import template_settings
from rl.config.embedded_models import SMOLLM2
from rl.demo.everyday import QUESTIONS
from rl.lm import base_models, loading
from rl.lm.lengths import cut_short, cut_whole

INSTRUCTION: Final = "Answer in one or two short, plain sentences."
TOGETHER: Final = 25
"""Questions at once."""


@dataclass(frozen=True, slots=True)
class Kind:
    instruction: str
    answers: int
    """To each question."""
    tokens: int
    """The most of an answer."""
    temperature: float


KINDS: Final = (Kind("", 1, 90, 0.8), Kind(INSTRUCTION, 3, 64, 0.6))


def sample_answers(target: Path, seed: int, report: Report) -> int:
    """Writes JSON lines with ``question`` and ``answer``; how many. Raises UsageError where the model cannot be had."""
    folder = base_models.resolve(SMOLLM2, report)
    loading.quiet()
    tokenizer, model = loading.load_tokenizer(folder), loading.load_base(folder, "fp32").eval()
    questions = QUESTIONS.read_text(encoding="utf-8").splitlines()
    torch.manual_seed(seed)
    answers: dict[str, list[str]] = {question: [] for question in questions}
    for kind in KINDS:
        for start in range(0, len(questions), TOGETHER):
            part = questions[start : start + TOGETHER]
            for question, text in _sample(model, tokenizer, part, kind):
                if text and text not in answers[question]:
                    answers[question].append(text)
            report("step", {"step": start + len(part), "total_steps": len(questions), "metrics": {}})
    lines = [{"question": question, "answer": text} for question, texts in answers.items() for text in texts]
    with replacing(target, "w") as file:
        file.writelines(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
    return len(lines)


@torch.inference_mode()
def _sample(model: Any, tokenizer: Any, questions: Sequence[str], kind: Kind) -> Iterator[tuple[str, str]]:
    system = [Message(role="system", content=kind.instruction)] if kind.instruction else []
    chats = [[*system, Message(role="user", content=question)] for question in questions]
    tokenizer.padding_side = "left"
    # (B, P): every prompt ends where its answers begin
    prompts = tokenizer.apply_chat_template(
        chats,
        add_generation_prompt=True,
        return_dict=True,
        return_tensors="pt",
        padding=True,
        **template_settings(False),
    )
    sampling = {"do_sample": True, "temperature": kind.temperature, "top_p": 0.95, "top_k": 50}
    # (B * N, P + T): N answers to each prompt, one prompt after the other
    output = model.generate(**prompts, max_new_tokens=kind.tokens, num_return_sequences=kind.answers, **sampling)
    texts = tokenizer.batch_decode(output[:, prompts["input_ids"].shape[1] :], skip_special_tokens=True)
    for number, text in enumerate(texts):
        yield questions[number // kind.answers], (cut_short if kind.instruction else cut_whole)(text)
