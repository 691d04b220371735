"""A simulated support chat: 128 questions with two answers each, rated by simulated people.

The raters like an answer that names the next step and dislike one that only apologises or defers. That is a property of
the text which holds for questions nobody has trained on; every answer is written once, so none can be memorised for the
held-out questions; and both kinds are equally long, so that an untrained model has nothing to go by."""

import random
import re
from collections.abc import Iterator
from typing import Any

from rl.demo import phrases
from rl.demo.everyday import DemoOpinion, RatedQuestion

NOISE = 0.05
"""Share of ratings that say the opposite of what the rater thinks."""
SECOND_RATER = 0.25
"""Share of answers that two people rated."""
RATERS = 5
TYPICAL_LENGTH = 27
"""Words and punctuation marks of an answer."""

_PIECES = re.compile(r"[A-Za-z]+|\d|[^\w\s]")

DEMO_TRAINING: dict[str, Any] = {
    "epochs": 4.0,
    "batch_size": 8,
    "gradient_accumulation": 1,
    "learning_rate": 1e-3,
    "lora_r": 8,
    "lora_alpha": 16,
    "max_length": 256,
    "precision": "fp32",
    "most_kl": 0,
}
"""Overrides of TrainingConfig that suit the embedded tiny model, which starts from random weights."""


def demo_answers(seed: int = 0) -> list[RatedQuestion]:
    """All 128 questions in random order; the same seed gives the same list."""
    rng = random.Random(seed)  # noqa: S311 - a simulation, no secret
    pairs = list(_write_pairs(rng))
    rng.shuffle(pairs)
    return [_rate_pair(rng, *pair) for pair in pairs]


def _write_pairs(rng: random.Random) -> Iterator[tuple[str, str, str]]:
    """(question, helpful answer, evasive answer), no two answers alike. The evasive answer is in turn a little longer
    and a little shorter than the helpful one."""
    used: set[str] = set()
    longer = 1
    for topic in phrases.TOPICS:
        for situation in phrases.SITUATIONS:
            good = _closest([_helpful(rng, topic) for _ in range(8)], used, TYPICAL_LENGTH)
            bad = _closest([_evasive(rng, topic) for _ in range(100)], used, length(good) + longer)
            longer = -longer
            question = situation.format(problem=topic.problem)
            yield question[0].upper() + question[1:], good, bad


def _closest(candidates: list[str], used: set[str], target_length: int) -> str:
    """The unused candidate nearest to the wanted length; marks it as used."""
    best = min((text for text in candidates if text not in used), key=lambda text: abs(length(text) - target_length))
    used.add(best)
    return best


def length(text: str) -> int:
    """Words and punctuation marks, which is also the number of tokens for the tiny model's vocabulary."""
    return len(_PIECES.findall(text))


def _helpful(rng: random.Random, topic: phrases.Topic) -> str:
    opening = rng.choice(phrases.HELPFUL_OPENINGS).format(noun=topic.noun)
    return f"{opening} {rng.choice(topic.steps)} {rng.choice(phrases.HELPFUL_ENDINGS)}"


def _evasive(rng: random.Random, topic: phrases.Topic) -> str:
    opening = rng.choice(phrases.EVASIVE_OPENINGS).format(noun=topic.noun)
    return f"{opening} {rng.choice(phrases.EVASIVE_MIDDLES)} {rng.choice(phrases.EVASIVE_ENDINGS)}"


def _rate_pair(rng: random.Random, question: str, good: str, bad: str) -> RatedQuestion:
    """One answer is helpful, one evasive, in random order."""
    rated = [(good, _thumbs(rng, liked=True)), (bad, _thumbs(rng, liked=False))]
    if rng.random() >= 0.5:
        rated.reverse()
    opinions = [DemoOpinion("thumb", rater, n, up) for n, (_, thumbs) in enumerate(rated) for rater, up in thumbs]
    return RatedQuestion(question, tuple(text for text, _ in rated), tuple(opinions))


def _thumbs(rng: random.Random, liked: bool) -> list[tuple[str, bool]]:
    count = 2 if rng.random() < SECOND_RATER else 1
    raters = rng.sample(range(1, RATERS + 1), count)
    return [(f"simulated-{number}", liked != (rng.random() < NOISE)) for number in raters]
