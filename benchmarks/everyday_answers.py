"""Samples the answers of the demo ``everyday`` from SmolLM2 again, to change the demo; some minutes.

    DATA_DIR=data .venv/bin/python benchmarks/everyday_answers.py --seed 1 --output answers.jsonl

For each question a long answer, and up to three for which a hidden instruction asked for few words. All are cut at their
last whole sentence, the short ones at two sentences. The same seed gives the same answers on the same kind of machine.
"""

import argparse
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import torch
from installation import set_up

set_up()

from learning_models import load_base  # noqa: E402

from rl.base.files import replacing  # noqa: E402
from rl.base.records import Message  # noqa: E402
from rl.base.template_settings import template_settings  # noqa: E402
from rl.demo.everyday import ANSWERS, QUESTIONS  # noqa: E402
from rl.lm.lengths import cut_whole  # noqa: E402

INSTRUCTION: Final = "Answer in one or two short, plain sentences."
TOGETHER: Final = 25
"""Questions at once."""
ENOUGH_WORDS: Final = 22
"""A first sentence of so many words stands alone."""


@dataclass(frozen=True, slots=True)
class Kind:
    instruction: str
    answers: int
    """To each question."""
    tokens: int
    """The most of an answer."""
    temperature: float


KINDS: Final = (Kind("", 1, 90, 0.8), Kind(INSTRUCTION, 3, 64, 0.6))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--output", type=Path, default=ANSWERS, help="file that appears whole (the demo's own)")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    base = load_base()
    questions = QUESTIONS.read_text(encoding="utf-8").splitlines()
    torch.manual_seed(options.seed)
    answers: dict[str, list[str]] = {question: [] for question in questions}
    for kind in KINDS:
        for start in range(0, len(questions), TOGETHER):
            part = questions[start : start + TOGETHER]
            for question, text in _sample(base.model, base.tokenizer, part, kind):
                if text and text not in answers[question]:
                    answers[question].append(text)
    lines = [{"question": question, "answer": text} for question, texts in answers.items() for text in texts]
    with replacing(options.output, "w") as file:
        file.writelines(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
    print(f"{len(lines)} answers in {options.output}")


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


def cut_short(text: str) -> str:
    """The first whole sentence, or the first two where the first is short; empty without one."""
    sentences = re.split(r"(?<=[.!?])\s+", " ".join(text.split()))
    whole = [sentence for sentence in sentences if sentence.endswith((".", "!", "?"))]
    count = 1 if whole and len(whole[0].split()) >= ENOUGH_WORDS else 2
    return " ".join(whole[:count])


if __name__ == "__main__":
    main()
