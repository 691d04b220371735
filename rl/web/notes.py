"""Notes of raters that say the same, by their words: without politeness and emphasis, and with what is often said in several
ways as one. "Way too long!" and "shorter, please" are one, "not long enough" is another: a negation counts as a word."""

from collections import Counter
from collections.abc import Iterable
from typing import Final

from rl.data_formatter.degeneration import words_of

ALIKE: Final = 0.6
"""The least share of the words of two notes that both have, for one to say the same as the other."""
_SAME: Final = {
    "long": "lengthy wordy verbose rambling shorter shorten brief briefer briefly concise lang langatmig kürzer kurz largo",
    "short": "longer detail details detailed brevity länger ausführlicher ausführlich corto",
    "wrong": "false incorrect error mistake falsch fehler mal incorrecto",
    "list": "lists bullet bullets bulleted numbered liste listen aufzählung lista listas",
    "polite": "rude unfriendly impolite friendlier politer kinder unhöflich freundlicher",
    "plain": "simpler simple jargon complicated complex easier technical einfacher kompliziert",
    "repeat": "repeats repeating repeated repetitive repetition again loop loops wiederholt",
}
"""Words for what is asked for or complained of; a word that is in none stands for itself."""
_AS_ONE: Final = {word: name for name, words in _SAME.items() for word in words.split()}
_FILLING_WORDS: Final = (
    "a an the is are was it its this that i me you your s t to of for in and answer answers response "
    "reply be make keep please way much far too very so really bit little just more less und die der das "
    "ist es bitte viel zu sehr etwas ein eine antwort por favor muy demasiado la el respuesta"
)
_FILLING: Final = frozenset(_FILLING_WORDS.split())


def group_notes(notes: Iterable[str]) -> list[tuple[str, int]]:
    """The commonest first: its commonest wording, else the first, and how many say it."""
    groups: list[tuple[frozenset[str], Counter[str]]] = []
    for note in notes:
        meaning = _meaning(note)
        same = next((wordings for known, wordings in groups if _is_alike(known, meaning)), None)
        if same is None:
            groups.append((meaning, same := Counter()))
        same[note] += 1
    counted = [(wordings.most_common(1)[0][0], wordings.total()) for _, wordings in groups]
    return sorted(counted, key=lambda group: -group[1])


def _meaning(note: str) -> frozenset[str]:
    words = words_of(note)
    kept = [_AS_ONE.get(word, word) for word in words if word not in _FILLING]
    return frozenset(kept or words)


def _is_alike(first: frozenset[str], other: frozenset[str]) -> bool:
    return first == other or len(first & other) >= ALIKE * len(first | other) > 0
