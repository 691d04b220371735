"""Whether an answer has degenerated: what a broken model says, whatever was asked.

By counting alone, and leniently: an ordinary list, table, piece of code or short answer is none of this, and whatever
cannot be told is not held against a model.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from rl.data_formatter.languages import in_another_language

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
_EMPTY_ITEMS = re.compile(r"(?:(?:^|\s)(?:\d+[.)]|[-*•])(?=\s|$)){6}")
"""Six marks of list items in a row with nothing behind them; a crontab's five stars are none."""
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
        "unending": not ended and (repeating or _is_without_sentence_end(text)),
        "echo": echoes(text, prompt[-1]) and not any(echoes(answer, prompt[-1]) for answer in stored),
        "other_language": in_another_language(text, [*prompt, *stored, *others]),
    }
    return [kind for kind, shows in signs.items() if shows]


def repeats(text: str, ended: bool = True) -> bool:
    """A loop makes up much of it, or goes on where it was cut; or half of it was said before, or it counts without items."""
    words = _words(text)
    characters = list("".join(text.split()))
    in_loop = any(
        _is_in_loop(items, LONGEST_UNIT[kind], ended) for kind, items in (("words", words), ("characters", characters))
    )
    return in_loop or _says_again(words) or bool(_EMPTY_ITEMS.search(text))


def echoes(text: str, question: str) -> bool:
    """Most of its words are the question's, from the question's first word on."""
    words, asked = _words(text), _words(question)
    fewest = min(ECHO_WORDS, len(asked))
    if not words or fewest < 3:
        return False
    echoed = position = 0
    while position < len(words):
        same = _same_from(position, words, asked)
        echoed += same if same >= fewest else 0
        position += max(1, same)
    return echoed >= ECHO_SHARE * len(words)


def _words(text: str) -> list[str]:
    return _WORD.findall(text.lower())


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


def _says_again(words: Sequence[str]) -> bool:
    trigrams = list(zip(words, words[1:], words[2:], strict=False))
    return len(trigrams) >= FEWEST_TRIGRAMS and 1 - len(set(trigrams)) / len(trigrams) > TRIGRAM_SHARE


def _is_without_sentence_end(text: str) -> bool:
    """At its end: far more than one sentence has."""
    return len(_SENTENCE_END.split(text.strip())[-1]) >= WITHOUT_END
