"""How much of the weight of training rows wrong ones have, before and after a judge has weighed the raters: a Markdown
table.

    DATA_DIR=data .venv/bin/python benchmarks/judge_raters.py

The answers and the simulated raters of ``learning.py``: 20 of them, half picks and half thumbs, a tenth the wrong way round
by chance, and in the first columns four raters who say the opposite of what they think. Rows are those of MPO, pairs of two
raters' thumbs too. What is wrong the taste says itself.
"""

from collections.abc import Mapping, Sequence
from statistics import fmean, median
from typing import Any, Final

import numpy as np
from installation import set_up
from learning_raters import LABELLED, TASTES, Taste, labels, read_answers

ASKED: Final = ("brief", "plain", "personal", "orderly")
BUDGETS: Final = (50, 100, 200, 400)
SEEDS: Final = range(3)
NOISE, BAD = 0.1, 0.2


def main() -> None:
    set_up()
    from learning_judge import see
    from learning_models import load_base

    answers = read_answers()
    rated = {prompt: answers[prompt] for prompt in list(answers)[:LABELLED]}
    features = see(load_base(), [(prompt, text) for prompt, texts in rated.items() for text in texts])
    print("| labels | four raters turned round: all alike | weighed | all honest: alike | weighed | their weight |")
    print("|---|---|---|---|---|---|")
    for budget in BUDGETS:
        turned, honest = (
            [measure(TASTES[name], rated, features, budget, seed, bad) for name in ASKED for seed in SEEDS]
            for bad in (BAD, 0.0)
        )
        columns = [*list(zip(*turned, strict=True))[:2], *zip(*honest, strict=True)]
        print(f"| {budget} | " + " | ".join(f"{fmean(column):.0%}" for column in columns) + " |")


def measure(
    taste: Taste, rated: Mapping[str, Sequence[str]], features: np.ndarray, budget: int, seed: int, bad: float
) -> tuple[float, float, float]:
    """The share of wrong rows before, that of their weight after, and the mean weight after."""
    from learning_arms import mixed_rows

    from rl.judge.labels import Answers, opinions_of, votes_of
    from rl.judge.raters import share_of, trust_raters

    places = {(prompt, text): row for row, (prompt, text) in enumerate((p, t) for p, ts in rated.items() for t in ts)}
    rows, answers = mixed_rows(labels(taste, rated, budget, seed, NOISE, bad)), Answers()
    opinions = opinions_of(rows, answers)
    seen = [places[messages[0]["content"], text] for messages, text in answers.conversations]
    trust = trust_raters(features[seen], opinions)
    weights = np.array([share_of(votes_of(row), trust) for row in rows])
    line = median(taste(text) for texts in rated.values() for text in texts)
    wrong = np.array([is_wrong(row, taste, line) for row in rows])
    left = np.abs(weights)
    is_wrong_now = np.where(weights < 0, ~wrong, wrong)
    return float(wrong.mean()), float((left * is_wrong_now).sum() / left.sum()), float(left.mean())


def is_wrong(row: Mapping[str, Any], taste: Taste, line: float) -> bool:
    chosen, rejected = ([taste(answer[0]["content"])] if answer else [] for answer in (row["chosen"], row["rejected"]))
    return (*chosen, line)[0] < (*rejected, line)[0]


if __name__ == "__main__":
    main()
