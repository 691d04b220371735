"""The form of an answer: what can be counted in its text, beside the question that it answers. No model is needed.

Numbers of words and characters are logarithms, most others shares between 0 and 1. What marks an apology or the first person
is counted in English; other languages are told apart by the rest."""

import math
import re
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

WIDTH: Final = 34
"""Numbers of an answer."""
_WORDS: Final = re.compile(r"\w+(?:'\w+)?")
_SENTENCES: Final = re.compile(r"(?<=[.!?])\s+|\n+")
_BULLETS, _NUMBERED = re.compile(r"(?m)^[ \t]*[-*•] "), re.compile(r"(?m)^[ \t]*\d+[.)] ")
_APOLOGY: Final = re.compile(r"\b(sorry|apologi[sz]e|unfortunately|cannot|can't|unable|as an ai)\b")
_FIRST, _SECOND = re.compile(r"\b(i|i'm|i'd|i've|my|me|we|our)\b"), re.compile(r"\b(you|your|you're|yours)\b")
_LEFT_OVER: Final = re.compile(r"###|<\||\|>|\b(input|output|instruction|response|answer|user|assistant):")
_SHORT: Final = re.compile(r"\b(short|brief|briefly|concise|one (word|sentence)|summar\w+|title|headline|name)\b")
_MANY: Final = re.compile(
    r"\b(list|steps?|ideas|examples?|explain|describe|essay|story|write|detail\w*|ways|compare)\b"
)
_CODE: Final = re.compile(r"\b(code|function|program|script|regex|sql|python|javascript|html)\b|```")


def form_of(prompt: str, text: str) -> list[float]:
    """WIDTH numbers. ``prompt``: the last thing that was asked."""
    words, asked = (_WORDS.findall(part.lower()) for part in (text, prompt))
    numbers = [
        *_size(text, words),
        *_edges(text),
        *_repetition(text, words),
        *_copying(words, asked),
        *_look(text, words),
    ]
    numbers += _fit(prompt.lower(), math.log1p(len(words)), math.log1p(len(asked)))
    return numbers


def _size(text: str, words: Sequence[str]) -> Iterator[float]:
    sentences = [part for part in _SENTENCES.split(text.strip()) if part]
    length = math.log1p(len(words))
    yield from (length, length**2, math.log1p(len(text)), math.log1p(len(sentences)))
    yield math.log1p(len(words) / max(1, len(sentences)))
    yield sum(map(len, words)) / max(1, len(words))
    yield math.log1p(text.count("\n"))


def _edges(text: str) -> Iterator[float]:
    """How it begins and ends."""
    begin, end = text.lstrip()[:1], text.rstrip()[-1:]
    yield from (float(begin.isupper()), float(begin.islower()))
    yield from (float(bool(end) and end in marks) for marks in (".!…。", "?", ":,;"))
    yield float(end.isalnum())  # cut, or a phrase


def _repetition(text: str, words: Sequence[str]) -> Iterator[float]:
    threes = Counter(zip(words, words[1:], words[2:], strict=False))
    sentences = [part.strip().lower() for part in _SENTENCES.split(text) if part.strip()]
    yield len(set(words)) / max(1, len(words))
    yield 1 - len(threes) / max(1, threes.total())
    yield 1 - len(set(sentences)) / max(1, len(sentences))
    data = text.encode("utf-8", "replace")
    yield len(zlib.compress(data)) / (len(data) + 20)  # of an empty text about a third


def _copying(words: Sequence[str], asked: Sequence[str]) -> Iterator[float]:
    own, of_prompt = set(words), set(asked)
    yield len(own & of_prompt) / max(1, len(own))
    yield len(own & of_prompt) / max(1, len(of_prompt))
    yield float(bool(words) and " ".join(words[:4]) in " ".join(asked))


def _look(text: str, words: Sequence[str]) -> Iterator[float]:
    lower, size = text.lower(), max(1, len(text))
    yield from (math.log1p(len(pattern.findall(text))) for pattern in (_BULLETS, _NUMBERED))
    yield float("```" in text or "    " in text)
    yield from (sum(map(test, text)) / size for test in (str.isdigit, str.isupper))
    yield from (len(pattern.findall(lower)) / max(1, len(words)) for pattern in (_FIRST, _SECOND))
    yield from (float(bool(pattern.search(lower))) for pattern in (_APOLOGY, _LEFT_OVER))


def _fit(prompt: str, words: float, asked: float) -> Iterator[float]:
    """Length times what is asked for: more is wanted of a story than of a headline."""
    yield asked
    yield words * asked
    yield from (words * bool(pattern.search(prompt)) for pattern in (_SHORT, _MANY, _CODE))
