"""How like a text is to a reference, 0 to 1, by what OpenAI calls ``evaluation_metric``.

Letters are compared by rapidfuzz, as they stand: without signs, "+" and "-" would be the same. Words are counted here:
packages that do bring numpy, lxml or nltk along for it. BLEU is that of one sentence with up to four words, smoothed
exponentially as sacrebleu does; GLEU is Google's. ROUGE is F1, without stems.
"""

import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final

from rapidfuzz import fuzz
from rapidfuzz.distance import LCSseq

ORDERS: Final = (1, 2, 3, 4)
"""Words that BLEU and GLEU look at together."""
_TOKEN = re.compile(r"\w+|[^\w\s]")
_WORD = re.compile(r"\w+")


def _ngrams(words: Sequence[str], order: int) -> Counter[tuple[str, ...]]:
    return Counter(zip(*(words[start:] for start in range(order)), strict=False))


def _fuzzy_match(text: str, reference: str) -> float:
    return fuzz.ratio(text, reference) / 100


def _bleu(text: str, reference: str) -> float:
    words, wanted = _TOKEN.findall(text), _TOKEN.findall(reference)
    logarithms, halving = [], 1
    for order in ORDERS[: len(words)]:
        matches = (_ngrams(words, order) & _ngrams(wanted, order)).total()
        if not matches:
            if order == 1:
                return 0.0
            halving *= 2
        logarithms.append(math.log((matches or 1 / halving) / (len(words) - order + 1)))
    if not logarithms:
        return 0.0
    shortness = min(0.0, 1 - len(wanted) / len(words))
    return math.exp(shortness + math.fsum(logarithms) / len(logarithms))


def _gleu(text: str, reference: str) -> float:
    both = [
        Counter(ngram for order in ORDERS for ngram in _ngrams(_TOKEN.findall(part), order).elements())
        for part in (text, reference)
    ]
    largest = max(counts.total() for counts in both)
    return (both[0] & both[1]).total() / largest if largest else 0.0


def _rouge(order: int, text: str, reference: str) -> float:
    ours, wanted = (_ngrams(_WORD.findall(part.lower()), order) for part in (text, reference))
    return _f1((ours & wanted).total(), ours.total(), wanted.total())


def _rouge_l(text: str, reference: str) -> float:
    ours, wanted = (_WORD.findall(part.lower()) for part in (text, reference))
    return _f1(LCSseq.similarity(ours, wanted), len(ours), len(wanted))


def _f1(shared: int, of_text: int, of_reference: int) -> float:
    return 2 * shared / (of_text + of_reference) if shared else 0.0


METRICS: Final[Mapping[str, Callable[[str, str], float]]] = {
    "fuzzy_match": _fuzzy_match,
    "bleu": _bleu,
    "gleu": _gleu,
    **{f"rouge_{order}": partial(_rouge, order) for order in range(1, 6)},
    "rouge_l": _rouge_l,
}
"""Name to the function of a text and its reference."""
