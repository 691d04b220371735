"""Whether an answer has degenerated: what a broken model says, whatever was asked, also in a language that nobody used.

By counting alone, and leniently: an ordinary list, table, piece of code or short answer is none of this, and whatever
cannot be told is not held against a model."""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

TIMES = 4
"""So often in a row a unit is said in a loop."""
LONGEST_UNIT = {"words": 40, "characters": 12}
FEWEST_CHARACTERS = 24
"""That a loop covers: ``0, 0, 0`` and ``no, no, no, no!`` are none."""
LOOP_SHARE = 1 / 3
"""That a loop covers of the answer's characters; one in which an answer was cut may be shorter."""
FEWEST_TRIGRAMS, TRIGRAM_SHARE = 30, 0.5
"""Three words in a row that were said before, of all; good answers have less than a tenth, a timetable a third."""
WITHOUT_END = 240
"""Characters, about 40 words: an honest sentence is shorter."""
ECHO_SHARE = 2 / 3
ECHO_WORDS = 4
_CJK = "\u3040-\u30ff\u3400-\u9fff"
_WORD = re.compile(rf"[{_CJK}]|[^\W{_CJK}]+")
"""Characters of Chinese and Japanese are words of their own."""
_EMPTY_ITEMS = re.compile(
    r"(?:(?:^|\s)(?:\d+[.)]|[-*•])(?=\s|$)){6}"
    r"|^(?:\s*\d+[.)](?=\s|$)){2,}\s*$"
    r"|(?:^|\s)1[.)]\s+[*_]*1\.1[*_.:]*\s+2[.)]\s+[*_]*1\.2[*_.:]*\s+3[.)]\s+[*_]*1\.3\b"
)
"""Six marks of list items in a row with nothing behind them, or nothing but numbers of items, or sections without a text; a
crontab's five stars are none, and a list of numbers is none."""
_ITEM = re.compile(r"(?:^|(?<=\s))(?:[-*•+]\s+){0,2}[*_]{0,3}\d+(?:\.\d+)*[.)](?=[\s*_]|$)|^[ \t]*[-*•+](?=\s)", re.M)
"""The mark at which an item of a list begins, also within a line."""
FEWEST_ITEMS, ITEM_WORDS, ITEM_SHARE = 4, 3, 1 / 2
"""So many items of a list, and the share of them that were there before. Fewer words may be right again and again, as
classes of several messages are."""
_RULER = re.compile(r"([-=_*~#])\1{3,119}[ \t]*$", re.MULTILINE)
"""Under a heading, or behind it."""
_SENTENCE_END = re.compile(r"[.!?…:;\n。！？]")


def degenerations(
    text: str, ended: bool, prompt: Sequence[str], stored: Sequence[str] = (), others: Sequence[str] = ()
) -> list[str]:
    """Those of ``repeats``, ``unending``, ``echo`` and ``other_language`` that it shows. ``ended``: within the tokens it was
    given; ``prompt``: the texts of its messages. ``stored``: answers that people prefer, which it may be like; ``others``:
    answers whose languages it may have too."""
    repeating = repeats(text, ended)
    signs = {
        "repeats": repeating,
        "unending": not ended and (repeating or (len(_SENTENCE_END.split(text.strip())[-1]) >= WITHOUT_END)),
        "echo": echoes(text, prompt[-1]) and not any(echoes(answer, prompt[-1]) for answer in stored),
        "other_language": in_another_language(text, [*prompt, *stored, *others]),
    }
    return [kind for kind, shows in signs.items() if shows]


def repeats(text: str, ended: bool = True) -> bool:
    """A loop makes up much of it, or goes on where it was cut; or half of it, or of its list's items, was said before; or it
    counts without items."""
    words = words_of(text)
    characters = list("".join((_RULER.sub("", text) if words else text).split()))
    in_loop = any(
        _is_in_loop(items, LONGEST_UNIT[kind], ended) for kind, items in (("words", words), ("characters", characters))
    )
    trigrams = list(zip(words, words[1:], words[2:], strict=False))
    says_again = len(trigrams) >= FEWEST_TRIGRAMS and 1 - len(set(trigrams)) / len(trigrams) > TRIGRAM_SHARE
    return in_loop or says_again or bool(_EMPTY_ITEMS.search(text)) or _lists_again(text)


def is_broken(text: str) -> bool:
    """Says nothing, or the same again and again. Beside an answer that does neither, people preferred the other one 48 times
    of 61 (five models, three annotators each: a part of PandaLM, https://arxiv.org/abs/2306.05087)."""
    return not text.strip() or repeats(text)


def rank(texts: Sequence[str], ratings: Sequence[float]) -> list[int]:
    """Their numbers, the best first; those that are broken come last, however a judge rates them."""
    return sorted(range(len(texts)), key=lambda index: (is_broken(texts[index]), -ratings[index]))


def echoes(text: str, question: str) -> bool:
    """Most of its words are the question's, from the question's first word on."""
    words, asked = words_of(text), words_of(question)
    fewest = min(ECHO_WORDS, len(asked))
    if not words or fewest < 3:
        return False
    echoed = position = 0
    while position < len(words):
        same = _same_from(position, words, asked)
        echoed += same if same >= fewest else 0
        position += max(1, same)
    return echoed >= ECHO_SHARE * len(words)


def words_of(text: str) -> list[str]:
    """In lower case; characters of Chinese and Japanese are words of their own."""
    return _WORD.findall(text.lower())


def _lists_again(text: str) -> bool:
    """Whatever the numbers of the items; the last one may have been cut."""
    items = [tuple(words) for item in _ITEM.split(text)[1:] if (words := words_of(item))]
    if len(items) < FEWEST_ITEMS:
        return False
    known: set[tuple[str, ...]] = set()
    again = 0
    for item in items[:-1]:
        again += item in known
        known |= {item} if len(item) >= ITEM_WORDS else set()
    again += any(item[: len(items[-1])] == items[-1] for item in known)
    return again >= ITEM_SHARE * len(items)


def _same_from(position: int, words: Sequence[str], asked: Sequence[str]) -> int:
    """How many words from there on are those that ``asked`` begins with."""
    same = 0
    while same < len(asked) and position + same < len(words) and words[position + same] == asked[same]:
        same += 1
    return same


def _is_in_loop(items: Sequence[str], longest: int, ended: bool) -> bool:
    whole = sum(map(len, items))
    for loop in _loops(items, longest):
        covered = sum(len(items[number]) for number in loop)
        # the last word may have been cut
        goes_on = not ended and loop.stop >= len(items) - 1
        if covered >= FEWEST_CHARACTERS and (goes_on or covered >= LOOP_SHARE * whole):
            return True
    return False


def _loops(items: Sequence[str], longest: int) -> Iterator[range]:
    """Where a unit of at most ``longest`` items is said TIMES times in a row, or more."""
    for unit in range(1, min(longest, len(items) // TIMES) + 1):
        run = 0  # items that are the same as those one unit later
        for number in range(len(items) - unit + 1):
            if number < len(items) - unit and items[number] == items[number + unit]:
                run += 1
                continue
            if run >= (TIMES - 1) * unit:
                yield range(number - run, number + unit)
            run = 0


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
    """Than all of ``accepted``: none of them has a letter of its script, or all are clearly in other languages. Says nothing
    of short texts, of languages that are not listed, and of those that share a script other than Latin."""
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
