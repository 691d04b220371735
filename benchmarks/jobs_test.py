"""How many messages of a job a version answers rightly, said freely, as it is served."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from learning_models import Base

from rl.base.records import silent
from rl.data_formatter.answer_kinds import AnswerKind, whole_object
from rl.lm import loading
from rl.lm.encoding import encode
from rl.lm.generating import likeliest

TOGETHER: Final = 40
ROOM: Final = 1.5


def read_test(file: Path) -> list[tuple[str, str]]:
    """Prompts with their right answers."""
    return [(one["prompt"], one["label"]) for one in json.loads(file.read_text(encoding="utf-8"))]


def ask(base: Base, weights: Path | None, test: Sequence[tuple[Any, str]]) -> list[str]:
    """A prompt: a text, or messages."""
    rows = [
        {
            "prompt": [{"role": "user", "content": prompt}] if isinstance(prompt, str) else prompt,
            "chosen": [{"role": "assistant", "content": label}],
        }
        for prompt, label in test
    ]
    encoded = list(encode(base.tokenizer, rows, len(rows), silent, ("chosen",)))
    most = max(16, round(ROOM * max(len(row["chosen_ids"]) for row in encoded)))
    answers: list[str] = []
    with loading.with_weights(base.model, weights) as model:
        model.eval()
        for start in range(0, len(encoded), TOGETHER):
            prompts = [row["prompt_ids"] for row in encoded[start : start + TOGETHER]]
            for ids in likeliest(model, base.tokenizer, prompts, most):
                answers.append(base.tokenizer.decode(ids, skip_special_tokens=True).strip())
    return answers


def count(answers: Sequence[str], test: Sequence[tuple[Any, str]], kind: AnswerKind) -> dict[str, Any]:
    right = sum(kind.is_right(answer, [label]) for answer, (_, label) in zip(answers, test, strict=True))
    counted: dict[str, Any] = {"right": right, "of": len(test)}
    if kind.kind == "structured":
        fields = [
            hit
            for answer, (_, label) in zip(answers, test, strict=True)
            for hit in kind.compare(answer, label).values()
        ]
        valid = sum(whole_object(answer) is not None for answer in answers)
        counted |= {"valid": valid, "fields": sum(fields), "of_fields": len(fields)}
    return counted
