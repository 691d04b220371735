"""The arms that ask a judge, which has learned from the same labels."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
from learning_arms import mixed_rows, train_mpo
from learning_models import SAMPLED, Base, answer
from learning_raters import Label

from rl.base.records import silent
from rl.judge.features import features_of
from rl.judge.head import Head, fit
from rl.judge.labels import Opinion

SAMPLES: Final = 4
MOST_TOKENS: Final = 512
MIDDLING: Final = 2
"""Of four answers the best and the third: the worst is often nonsense, and teaches little."""


def learn_judge(base: Base, labels: Sequence[Label]) -> Head:
    texts = {(label.prompt, text): None for label in labels for text in (label.answer, label.other) if text is not None}
    rows = {key: number for number, key in enumerate(texts)}
    opinions = [
        Opinion(
            rows[label.prompt, label.answer],
            None if label.other is None else rows[label.prompt, label.other],
            float(label.up),
            prompt=label.prompt,
        )
        for label in labels
    ]
    return fit(see(base, list(texts)), opinions)


def see(base: Base, texts: Sequence[tuple[str, str]]) -> np.ndarray:
    conversations = [([{"role": "user", "content": prompt}], text) for prompt, text in texts]
    return features_of(base.model, base.tokenizer, conversations, max_length=MOST_TOKENS, report=silent)


def best_of(base: Base, head: Head, prompts: Sequence[str], samples: Sequence[Sequence[str]]) -> list[str]:
    """The answer to each prompt that the judge likes best."""
    flat = [(prompt, text) for prompt, texts in zip(prompts, samples, strict=True) for text in texts]
    ratings = head.ratings(see(base, flat))[0].reshape(len(prompts), -1)
    return [texts[int(row.argmax())] for texts, row in zip(samples, ratings, strict=True)]


def train_with_fresh_answers(
    base: Base, labels: Sequence[Label], folder: Path, seed: int, prompts: Sequence[str]
) -> Path:
    """Beside people's labels, pairs of answers that the base model has just given to the same questions."""
    head = learn_judge(base, labels)
    samples = answer(base, base.model, prompts, SAMPLES, SAMPLED, 1000 + seed)
    flat = [(prompt, text) for prompt, texts in zip(prompts, samples, strict=True) for text in texts]
    ratings = head.ratings(see(base, flat)).reshape(len(head.weights), len(prompts), SAMPLES)
    rows: list[dict[str, Any]] = list(mixed_rows(labels))
    for number, (prompt, texts) in enumerate(zip(prompts, samples, strict=True)):
        order = ratings[0, number].argsort()[::-1]
        better, worse = order[0], order[MIDDLING]
        p = float((1 / (1 + np.exp(ratings[:, number, worse] - ratings[:, number, better]))).mean())
        if texts[better] != texts[worse]:
            rows.append(_pair(prompt, texts[better], texts[worse], max(0.1, 2 * p - 1)))
    return train_mpo(base, rows, folder, seed)


def _pair(prompt: str, chosen: str, rejected: str, weight: float) -> dict[str, Any]:
    sides = {
        name: [{"role": "assistant", "content": text}] for name, text in (("chosen", chosen), ("rejected", rejected))
    }
    return {"prompt": [{"role": "user", "content": prompt}], **sides, "weight": weight}
