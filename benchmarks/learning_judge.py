"""The arm that asks a judge, which has learned from the same labels."""

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
from learning_models import Base
from learning_raters import Label

from rl.base.records import Vote, silent
from rl.data_formatter.degeneration import rank
from rl.judge.features import features_of
from rl.judge.head import Head, fit
from rl.judge.labels import Opinion
from rl.judge.raters import trust_raters, weigh_opinions

SAMPLES: Final = 4
MOST_TOKENS: Final = 512


def learn_judge(base: Base, labels: Sequence[Label]) -> Head:
    texts = {(label.prompt, text): None for label in labels for text in (label.answer, label.other) if text is not None}
    rows = {key: number for number, key in enumerate(texts)}
    opinions, features = opinions_of(labels, rows), see(base, list(texts))
    return fit(features, weigh_opinions(opinions, trust_raters(features, opinions)))


def opinions_of(labels: Sequence[Label], rows: Mapping[tuple[str, str], int]) -> list[Opinion]:
    """``rows``: prompt and answer to the row of their features."""
    return [
        Opinion(
            rows[label.prompt, label.answer],
            None if label.other is None else rows[label.prompt, label.other],
            float(label.up),
            prompt=label.prompt,
            votes=(Vote(f"{label.rater}", True),),
        )
        for label in labels
    ]


def see(base: Base, texts: Sequence[tuple[str, str]]) -> np.ndarray:
    conversations = [([{"role": "user", "content": prompt}], text) for prompt, text in texts]
    return features_of(base.model, base.tokenizer, conversations, max_length=MOST_TOKENS, report=silent)


def best_of(base: Base, head: Head, prompts: Sequence[str], samples: Sequence[Sequence[str]]) -> list[str]:
    """The answer to each prompt that the judge likes best, of those that are not broken."""
    flat = [(prompt, text) for prompt, texts in zip(prompts, samples, strict=True) for text in texts]
    ratings = head.ratings(see(base, flat)).reshape(len(prompts), -1)
    return [texts[rank(texts, row.tolist())[0]] for texts, row in zip(samples, ratings, strict=True)]
