"""How often a judge that learned from people's labels is right about answers to new questions: Markdown tables.

    DATA_DIR=data .venv/bin/python benchmarks/judge.py

The answers and the simulated raters of ``learning.py``: half picks and half thumbs, a tenth the wrong way round, on 64
prompts; right is what the taste itself says of the answers to 32 others. Beside ``rl.judge`` the bag of words that stood in
its place before: a logistic regression on words and pairs of words, which can learn from thumbs alone.
"""

import re
import zlib
from collections.abc import Mapping, Sequence
from itertools import combinations, pairwise
from statistics import fmean, median
from typing import Final

import numpy as np
from installation import set_up
from learning_raters import LABELLED, TASTES, Taste, labels, read_answers

ASKED: Final = ("brief", "plain", "personal", "orderly")
BUDGETS: Final = (50, 100, 200, 400)
SEEDS: Final = range(10)
NOISE: Final = 0.1
MOST_TOKENS: Final = 512
WORDS, REGULARISATION, NEWTON_STEPS = 2**16, 10.0, 30
Texts = list[tuple[str, str]]
"""Prompt and answer."""


def main() -> None:
    set_up()
    answers = read_answers()
    texts = [(prompt, text) for prompt, of_prompt in answers.items() for text in of_prompt]
    words, states = bag_of_words(texts), see(texts)
    prompts = list(answers)
    rated, unseen = {prompt: answers[prompt] for prompt in prompts[:LABELLED]}, set(prompts[LABELLED:])
    print(
        "| labels | bag of words, thumbs | judge, thumbs | judge, thumbs and picks | pairs: bag of words | pairs: judge |"
    )
    print("|---|---|---|---|---|---|")
    for budget in BUDGETS:
        columns = [
            measure(taste, rated, unseen, texts, words, states, budget, seed)
            for taste in (TASTES[name] for name in ASKED)
            for seed in SEEDS
        ]
        print(f"| {budget} | " + " | ".join(f"{fmean(column):.0%}" for column in zip(*columns, strict=True)) + " |")


def measure(
    taste: Taste,
    rated: Mapping[str, Sequence[str]],
    unseen: set[str],
    texts: Texts,
    words: np.ndarray,
    states: np.ndarray,
    budget: int,
    seed: int,
) -> tuple[float, ...]:
    """The columns of the table, 0 to 1."""
    from learning_judge import opinions_of

    from rl.judge.head import fit

    rows = {text: row for row, text in enumerate(texts)}
    given = labels(taste, rated, budget, seed, NOISE, bad=0.0)
    thumbs = [label for label in given if label.other is None]
    bag = learn_words(words, [rows[label.prompt, label.answer] for label in thumbs], [label.up for label in thumbs])
    alone = fit(states, opinions_of(thumbs, rows))
    both = fit(states, opinions_of(given, rows))
    line = median(taste(text) for of_prompt in rated.values() for text in of_prompt)
    asked = [row for row, (prompt, _) in enumerate(texts) if prompt in unseen]
    good = np.array([taste(texts[row][1]) > line for row in asked])
    pairs = [
        (a, b)
        for a, b in combinations(asked, 2)
        if texts[a][0] == texts[b][0] and taste(texts[a][1]) != taste(texts[b][1])
    ]
    first = np.array([taste(texts[a][1]) > taste(texts[b][1]) for a, b in pairs])

    def ranked(numbers: np.ndarray) -> float:
        return float(np.mean([numbers[a] > numbers[b] for a, b in pairs] == first))

    return (
        float(np.mean((bag[asked] > 0) == good)),
        float(np.mean((alone.goodness(states[asked]) > 0.5) == good)),
        float(np.mean((both.goodness(states[asked]) > 0.5) == good)),
        ranked(bag),
        ranked(both.ratings(states)),
    )


def see(texts: Texts) -> np.ndarray:
    from rl.base.records import Message, silent
    from rl.config.embedded_models import SMOLLM2
    from rl.judge.features import Reader
    from rl.lm import base_models

    conversations = [([Message(role="user", content=prompt)], text) for prompt, text in texts]
    reader = Reader(base_models.resolve(SMOLLM2, silent), max_length=MOST_TOKENS, report=silent)
    return reader.features(conversations, silent)


def bag_of_words(texts: Texts) -> np.ndarray:
    """(N, N): how much every two answers have in common, of hashed words and pairs of words, 0 to 1."""
    counts = np.zeros((len(texts), WORDS), dtype=np.float32)
    for row, (prompt, answer) in enumerate(texts):
        asked, answered = (re.findall(r"\w+|[^\w\s]", text.lower()) for text in (prompt, answer))
        terms = [f"asked {word}" for word in asked] + [f"answered {word}" for word in answered]
        terms += [f"answered {a} {b}" for a, b in pairwise(answered)] + [f"length {len(answered).bit_length()}"]
        np.add.at(counts[row], [zlib.crc32(term.encode()) % WORDS for term in terms], 1)
    counts /= np.linalg.norm(counts, axis=1, keepdims=True)
    return counts @ counts.T


def learn_words(common: np.ndarray, rows: list[int], goods: list[bool]) -> np.ndarray:
    """The logit of each answer, (N,), by a logistic regression with an L2 penalty, in the span of the ``rows``."""
    values, axes = np.linalg.eigh(common[np.ix_(rows, rows)])
    kept = values > 1e-6
    design = np.c_[common[:, rows] @ (axes[:, kept] / np.sqrt(values[kept])), np.ones(len(common))]  # (N, M + 1)
    learned, penalty = design[rows], np.append(np.full(int(kept.sum()), 1 / REGULARISATION), 1e-9)
    theta = np.zeros(learned.shape[1])
    for _ in range(NEWTON_STEPS):
        p = 1 / (1 + np.exp(-np.clip(learned @ theta, -30, 30)))
        curvature = learned.T @ (learned * (p * (1 - p))[:, None]) + np.diag(penalty)
        theta -= np.linalg.solve(curvature, learned.T @ (p - np.array(goods, dtype=float)) + penalty * theta)
    return np.asarray(design @ theta)


if __name__ == "__main__":
    main()
