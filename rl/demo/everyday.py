"""Everyday questions with answers that SmolLM2 gave, rated by simulated people of one taste: short, and to the point.

They like an answer of at most two sentences that begins with the answer itself, and dislike one that is long or that begins
with what a thing can be, how delicate it is, or what it is all about. Whether an answer is true they do not look at: the
model is small and often wrong, and learns how to answer and not what."""

import json
import random
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

FOLDER: Final = Path(__file__).parent
QUESTIONS: Final = FOLDER / "everyday_questions.txt"
ANSWERS: Final = FOLDER / "everyday_answers.jsonl"
"""Sampled from SmolLM2 by ``benchmarks/everyday_answers.py``."""

MOST_WORDS: Final = 45
FEWEST_WORDS: Final = 8
_OPENING: Final = 9
"""Words in which the answer must come to the question."""
_STEM: Final = 5
"""Letters by which a word is known again."""
_FILLERS = re.compile(
    r"can be|can vary|classic|delicate|overwhelm|daunting|game-chang|\bart of|here's|let's|it's all about|when it comes|"
    r"understand|rewarding|lies in|tricky|frustrat|topic of|not just|a bit of|journey|eternal|once upon|absolutely|"
    r"\bah,|\*|\d\.(?!\d)",
    re.IGNORECASE,
)
_COMMON: Final = frozenset(
    ("best", "does", "from", "good", "have", "into", "like", "make", "more", "should", "than")
    + ("that", "them", "they", "what", "when", "with", "your")
)

NOISE: Final = 0.03
"""Share of ratings that say the opposite of what the rater thinks."""
RATERS: Final = 5


def likes(question: str, answer: str) -> bool:
    words = answer.split()
    if not FEWEST_WORDS <= len(words) <= MOST_WORDS or _FILLERS.search(answer):
        return False
    return bool(_stems(question) & _stems(" ".join(words[:_OPENING])))


def _stems(text: str) -> set[str]:
    return {word[:_STEM] for word in re.findall(r"[a-z]{4,}", text.lower()) if word not in _COMMON}


@dataclass(frozen=True, slots=True)
class DemoOpinion:
    """What one rater said: a thumb on ``answer``; that it is better than ``other``; or what it should have been."""

    kind: Literal["thumb", "pick", "edit"]
    rater: str
    answer: int
    """Its place among the question's answers."""
    up: bool = False
    other: int = 0
    text: str = ""


@dataclass(frozen=True, slots=True)
class RatedQuestion:
    question: str
    answers: tuple[str, ...]
    opinions: tuple[DemoOpinion, ...]


def read_answers(path: Path = ANSWERS) -> dict[str, list[str]]:
    """Question to its answers, without repetitions."""
    answers: dict[str, list[str]] = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        row: dict[str, Any] = json.loads(line)
        answers.setdefault(row["question"], []).append(row["answer"])
    return {question: list(dict.fromkeys(texts)) for question, texts in answers.items()}


def rated_questions(seed: int = 0) -> list[RatedQuestion]:
    """All questions; the same seed gives the same opinions."""
    rng = random.Random(seed)  # noqa: S311 - a simulation, no secret
    rated = []
    for question, answers in read_answers().items():
        liked = [number for number, text in enumerate(answers) if likes(question, text)]
        disliked = [number for number in range(len(answers)) if number not in liked]
        rated.append(RatedQuestion(question, tuple(answers), tuple(_opinions(rng, answers, liked, disliked))))
    rng.shuffle(rated)
    return rated


def _opinions(rng: random.Random, answers: list[str], liked: list[int], disliked: list[int]) -> Iterator[DemoOpinion]:
    """As in an application: many thumbs, mostly on one answer to a question, some picks of two, a few edits."""
    rater = f"simulated-{rng.randint(1, RATERS)}"
    way = rng.random() if liked and disliked else 0.0
    if way < 0.6:
        for number, answer in enumerate(answers):
            # Nearly everybody rates who had to read a long answer, few whom a short one left cold.
            share = 0.75 if number in liked else 0.9 if len(answer.split()) > MOST_WORDS else 0.4
            if rng.random() < share:
                yield DemoOpinion("thumb", rater, number, (number in liked) != (rng.random() < NOISE))
    elif way < 0.8:
        better, worse = rng.choice(liked), rng.choice(disliked)
        yield DemoOpinion("pick", rater, better, other=worse)
    else:
        yield DemoOpinion("edit", rater, rng.choice(disliked), text=answers[rng.choice(liked)])
