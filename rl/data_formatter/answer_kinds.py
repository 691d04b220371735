"""What the answers are that people accept: of a closed set, of a structure, or free; and when one is right.

Found out from the accepted answers alone. Closed: few distinct answers, each said again and again. That no further one is to
be expected is told by Good's estimate (1953, Biometrika 40:237-264): the chance that the next answer is a new one is
the share of those that were seen once. Structured: JSON objects with fields in common, or of few shapes, of which by the
same estimate hardly one more is to be expected. Whatever is neither is free, and has no right answer that could be told by
comparing."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

Kind = Literal["closed", "structured", "free"]
FEWEST: Final = 8
"""Accepted answers from which on their kind is told."""
MOST_NEW: Final = 0.3
"""Chance of a new answer up to which a set counts as closed."""
LEAST_STRUCTURED: Final = 0.9
LONGEST: Final = 80
"""Characters of an answer of a closed set: whoever says a long text twice has no set in mind."""
FIRST: Final = 2000
"""Answers that are looked at."""
SHOWN: Final = 8
_QUOTES: Final = "\"'`*"
_DECLARED: Final = "as the agent's settings say"


@dataclass(frozen=True, slots=True)
class AnswerKind:
    kind: Kind
    reason: str
    """For people, without a full stop."""
    values: tuple[str, ...] = ()
    """The answers of a closed set that were accepted, the most frequent first, as ``normalise`` writes them."""
    fields: tuple[str, ...] = ()
    """Those of a structure that most answers have; empty where there are several shapes."""

    @property
    def has_right_answers(self) -> bool:
        return self.kind != "free"

    def is_of_kind(self, answer: str) -> bool:
        """Whether it is one of the set, or an object with the fields; every free answer is."""
        if self.kind == "closed":
            return normalise(answer) in self.values
        if self.kind == "structured":
            given = whole_object(answer)
            return given is not None and set(self.fields) <= set(given)
        return True

    def is_right(self, answer: str, accepted: Sequence[str]) -> bool:
        """Whether it says the same as one of the accepted answers: the same words, or the same value of every field."""
        return any(all(self.compare(answer, text).values()) for text in accepted)

    def compare(self, answer: str, accepted: str) -> dict[str, bool]:
        """Field to whether it is right; of an answer without fields, one with an empty name."""
        wanted = whole_object(accepted) if self.kind == "structured" else None
        if wanted is None:
            return {"": normalise(answer) == normalise(accepted)}
        if not wanted:
            return {"": whole_object(answer) == {}}
        given = whole_object(answer) or {}
        return {name: name in given and _plain(given[name]) == _plain(value) for name, value in wanted.items()}

    def as_dict(self) -> dict[str, Any]:
        return {"kind": self.kind, "reason": self.reason, "values": list(self.values), "fields": list(self.fields)}

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> AnswerKind:
        return cls(stored["kind"], stored["reason"], tuple(stored["values"]), tuple(stored["fields"]))


FREE: Final = AnswerKind("free", "nothing is known of its answers")


def find_kind(accepted: Iterable[str], declared: str = "") -> AnswerKind:
    """``declared``: a Kind, where somebody said so; empty: found out."""
    answers = [answer for answer, _ in zip(accepted, range(FIRST), strict=False)]
    objects = [value for answer in answers if (value := whole_object(answer))]
    if declared == "free" or (not declared and len(answers) < FEWEST):
        plural = "" if len(answers) == 1 else "s"
        few = f"{len(answers)} accepted answer{plural}, and {FEWEST} tell of what kind they are"
        return AnswerKind("free", _DECLARED if declared else few)
    if declared == "structured" or (not declared and len(objects) >= LEAST_STRUCTURED * len(answers)):
        count = Counter(name for value in objects for name in value)
        fields = tuple(name for name, times in count.items() if times >= LEAST_STRUCTURED * len(objects))
        shapes = Counter(map(frozenset, objects))
        new = sum(times == 1 for times in shapes.values()) / max(len(objects), 1)
        counted = f"{len(objects)} of {len(answers)} accepted answers are JSON"
        if not fields and not declared and new > MOST_NEW:
            return AnswerKind("free", f"{counted}, without a field in common")
        reason = f"{counted} objects " + (f"with {', '.join(fields[:SHOWN])}" if fields else f"of {len(shapes)} shapes")
        return AnswerKind("structured", _DECLARED if declared else reason, fields=fields)
    return _find_set(answers, declared)


def _find_set(answers: Sequence[str], declared: str) -> AnswerKind:
    count = Counter(map(normalise, answers))
    new = sum(times == 1 for times in count.values()) / max(len(answers), 1)
    longest = max(map(len, count), default=0)
    if not declared and (new > MOST_NEW or longest > LONGEST):
        return AnswerKind("free", f"{len(count)} of {len(answers)} accepted answers are distinct")
    reason = f"{len(answers)} accepted answers are {len(count)} distinct ones"
    values = tuple(value for value, _ in count.most_common())
    return AnswerKind("closed", _DECLARED if declared else reason, values=values)


def normalise(answer: str) -> str:
    """Without what nobody means: case, white space at the ends and in a row, a full stop at the end, quotation marks."""
    text = " ".join(answer.split()).casefold()
    return text.strip(_QUOTES).removesuffix(".").strip(_QUOTES)


def whole_object(answer: str) -> dict[str, Any] | None:
    """The JSON object that a text is, also within a code fence; None for a text that is none."""
    text = answer.strip()
    if text.startswith("```") and text.endswith("```"):
        text = text.strip("`").removeprefix("json").strip()
    if not text.startswith("{"):
        return None
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _plain(value: Any) -> Any:
    """Texts whatever their case and white space; lists in their order; true differs from 1."""
    if isinstance(value, bool):
        return ("flag", value)
    if isinstance(value, str):
        return " ".join(value.split()).casefold()
    if isinstance(value, list):
        return [_plain(part) for part in value]
    if isinstance(value, dict):
        return {name: _plain(part) for name, part in value.items()}
    return value


FEWEST_LISTED: Final = 3
"""Answers of a list; two words with a comma between are in many sentences."""
MOST_LISTED: Final = 100
LONGEST_LISTED: Final = 40
"""Characters of an answer in a list."""
MOST_WORDS: Final = 4
LONGEST_PROMPT: Final = 40_000
"""Characters of a prompt that are read, half of them from each end: the gateway looks at every question."""
_SEPARATORS: Final = re.compile(
    r"\s*(?:,|;|\||/|\n)\s*(?:(?:or|and|oder|und|ou|et|o|y)\s+)?|\s+(?:or|and|oder|und|ou|et)\s+"
)
_ENDS: Final = re.compile(r"[:?!.](?=\s|$)|[()\[\]{}]")
_MARKS: Final = re.compile(r"^\s*(?:[-*•]|\d{1,2}[.)])\s+")


def listed_answers(prompt: str, accepted: str) -> tuple[str, ...]:
    """The list that the accepted answer stands in, as the prompt spells it; empty where there is none.

    A list ends at a colon, a bracket, and the end of a sentence; its parts are between commas, slashes, lines or the word
    before the last one. Where a sentence leads to it ("Is this good, bad or neutral?"), the first part is as long as the
    others."""
    wanted, half = normalise(accepted), LONGEST_PROMPT // 2
    read = prompt if len(prompt) <= LONGEST_PROMPT else f"{prompt[:half]}\n{prompt[-half:]}"
    for stretch, is_sentence in _stretches(read):
        parts = [_MARKS.sub("", part).strip(" \t\"'`*") for part in _SEPARATORS.split(stretch)]
        if is_sentence and len(parts) >= FEWEST_LISTED:
            most = max(len(part.split()) for part in parts[1:])
            parts[0] = " ".join(parts[0].split()[-most:])
        answers = tuple(dict.fromkeys(part for part in parts if part))
        are_short = all(len(answer) <= LONGEST_LISTED and len(answer.split()) <= MOST_WORDS for answer in answers)
        is_list = FEWEST_LISTED <= len(answers) <= MOST_LISTED and are_short
        if is_list and wanted in map(normalise, answers):
            return answers
    return ()


def _stretches(prompt: str) -> list[tuple[str, bool]]:
    """What may be a list: the parts of each line, and lines that follow each other with a mark before each; and whether it
    begins as a sentence does."""
    lines = [
        " ".join(line.split()) for line in prompt.splitlines()
    ]  # the separators go over a run of blanks again and again
    marked = [line if _MARKS.match(line) else "" for line in lines]
    blocks = [block.strip("\n") for block in re.split(r"\n{2,}", "\n".join(marked)) if block.strip()]
    parts = ((part, at == 0 or mark in ".?!") for line in lines for at, (mark, part) in enumerate(_parts(line)))
    return [*parts, *((block, False) for block in blocks)]


def _parts(line: str) -> list[tuple[str, str]]:
    """Between the marks that end a list, each with the mark before it."""
    ends = [("", 0), *((match[0], match.end()) for match in _ENDS.finditer(line))]
    starts = [*(match.start() for match in _ENDS.finditer(line)), len(line)]
    return [(mark, line[begin:end]) for (mark, begin), end in zip(ends, starts, strict=True)]
