"""Whether an answer is in a language that nobody used: by its script, and in Latin letters by its commonest words.

Says nothing of short texts, of languages that are not listed, and of those that share a script other than Latin.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from typing import Final

COMMON_WORDS: Final = {
    "English": "the and of to is that it you for with this are be have not your can will",
    "German": "der die das und ist nicht ein eine sie mit auf für von den dem sich auch wird",
    "French": "le les des et est une pas vous pour dans que qui sur avec ce du au sont",
    "Spanish": "el los las y es una no que por para con del se su como más son está",
    "Italian": "il gli e è una non che per di con del della sono le si come anche più",
    "Portuguese": "o os e é uma não que para com do da em se por mais são você as",
    "Dutch": "de het een en is van niet dat op te zijn voor met je ook maar wordt er",
}
"""To recognise another language, add about 18 of its commonest words, in lower case."""
FEWEST_LETTERS = 20
FEWEST_WORDS, SHARE, CLEARLY = 4, 0.15, 1.5
"""Common words of a language that a text in it has at least: so many, this share of its words, so many times the next's."""
_WORDS = {name: frozenset(words.split()) for name, words in COMMON_WORDS.items()}
_CODE = re.compile(r"```.*?(?:```|$)", re.DOTALL)
_SAME_SCRIPT = {"HIRAGANA": "CJK", "KATAKANA": "CJK", "KATAKANA-HIRAGANA": "CJK"}


def in_another_language(text: str, accepted: Sequence[str]) -> bool:
    """Than all of ``accepted``: none of them has a letter of its script, or all are clearly in other languages."""
    scripts = _scripts(text)
    main, letters = scripts.most_common(1)[0] if scripts else ("", 0)
    known = set().union(*map(_scripts, accepted))
    if known and letters >= FEWEST_LETTERS and letters > scripts.total() / 2 and main not in known:
        return True
    language = language_of(text)
    languages = {language_of(other) for other in accepted} - {""}
    return bool(language and languages and language not in languages)


def language_of(text: str) -> str:
    """A key of COMMON_WORDS; empty where it cannot be told. Fenced code does not count."""
    words = re.findall(r"[^\W\d_]+", _CODE.sub(" ", text).lower())
    counts = Counter({name: sum(word in common for word in words) for name, common in _WORDS.items()})
    (first, hits), (_, next_hits) = counts.most_common(2)
    return first if hits >= max(FEWEST_WORDS, SHARE * len(words), CLEARLY * next_hits) else ""


def _scripts(text: str) -> Counter[str]:
    """Letters of each script, by the first word of their names in Unicode."""
    names = (unicodedata.name(character, "").partition(" ")[0] for character in text if character.isalpha())
    return Counter(_SAME_SCRIPT.get(name, name) for name in names)
