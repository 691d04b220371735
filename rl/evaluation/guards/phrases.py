"""What many answers share, and what each has of its own, by their words."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain

from rl.data_formatter.degeneration import words_of

PHRASE_WORDS = 4
"""Fewer are said to many questions in good answers too."""
_SENTENCE = re.compile(r"(?<=[.!?])\s+|\s*\n\s*")


def most_overused(texts: Sequence[str], usual: Sequence[Sequence[str]], *, by_words: bool) -> tuple[float, float, str]:
    """The share of texts that have one thing in common, the largest share of those of ``usual`` that have it, and what it
    is: of all that they say, what is furthest above the usual. A sentence of some words, or the whole text; ``by_words``: or
    any PHRASE_WORDS words in a row."""
    counted = _count(texts, by_words)
    others = [(_count(of_other, by_words), len(of_other)) for of_other in usual if of_other]

    def share_of_others(phrase: str) -> float:
        return max((counts[phrase] / size for counts, size in others), default=0.0)

    if not counted:
        return 0.0, 0.0, ""
    excess = {phrase: times / len(texts) - share_of_others(phrase) for phrase, times in counted.items()}
    most = max(excess, key=lambda phrase: (excess[phrase], len(phrase)))
    return counted[most] / len(texts), share_of_others(most), most


def _count(texts: Sequence[str], by_words: bool) -> Counter[str]:
    """Texts that have each phrase."""
    return Counter(chain.from_iterable(set(_phrases(text, by_words)) for text in texts))


def _phrases(text: str, by_words: bool) -> Iterator[str]:
    if text.strip():
        yield text.strip()
    yield from (part.strip() for part in _SENTENCE.split(text) if len(part.split()) >= PHRASE_WORDS)
    if by_words:
        words = words_of(text)
        yield from (" ".join(words[at : at + PHRASE_WORDS]) for at in range(len(words) - PHRASE_WORDS + 1))


def own_words(texts: Sequence[str], questions: Sequence[str]) -> list[int]:
    """How many different words each text has that no other has and no question asks for: what it says of its own."""
    asked = set(chain.from_iterable(map(words_of, questions)))
    by_text = [set(words_of(text)) - asked for text in texts]
    texts_with = Counter(chain.from_iterable(by_text))
    return [sum(texts_with[word] == 1 for word in words) for words in by_text]
