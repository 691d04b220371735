"""Rewards that other processes can make again: dataclasses."""

from dataclasses import dataclass

from rl.base.records import AnswerScore, TraceRecord


@dataclass(frozen=True)
class StartsWith:
    word: str

    def __call__(self, trace: TraceRecord) -> AnswerScore:
        value = float(trace.response.startswith(self.word))
        return AnswerScore(value, {self.word.lower(): value})


@dataclass(frozen=True)
class EarlyLetters:
    """The share of the letters that are in the first half of the alphabet: about 0.5 for random words."""

    def __call__(self, trace: TraceRecord) -> AnswerScore:
        return AnswerScore(early_letters(trace.response))


@dataclass(frozen=True)
class BreaksIn:
    """One of the processes."""

    rank: str

    def __call__(self, trace: TraceRecord) -> AnswerScore:
        import os

        from rl.base.errors import RewardFailed

        if os.environ["RANK"] == self.rank:
            raise RewardFailed("fragile", "ZeroDivisionError: division by zero")
        return AnswerScore(0.5)


def early_letters(text: str) -> float:
    letters = [letter for letter in text.lower() if letter.isalpha()]
    return sum(letter < "n" for letter in letters) / len(letters) if letters else 0.0
