"""What the answers are that people accept: of a closed set, of a structure, or free; and when one is right.

Found out from the accepted answers alone. Closed: few distinct answers, each said again and again. That no further one is to
be expected is told by Good's estimate (1953, Biometrika 40:237-264): the chance that the next answer is a new one is
the share of those that were seen once. Structured: JSON objects with fields in common. Whatever is neither is free, and
has no right answer that could be told by comparing.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

Kind = Literal["closed", "structured", "free"]
KINDS: Final[tuple[Kind, ...]] = ("closed", "structured", "free")
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
    """Those of a structure that most answers have."""

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
    """``declared``: one of KINDS, where somebody said so; empty: found out."""
    answers = [answer for answer, _ in zip(accepted, range(FIRST), strict=False)]
    objects = [value for answer in answers if (value := whole_object(answer))]
    if declared == "free" or (not declared and len(answers) < FEWEST):
        few = (
            f"{len(answers)} accepted answer{'' if len(answers) == 1 else 's'}, and {FEWEST} tell of what kind they are"
        )
        return AnswerKind("free", _DECLARED if declared else few)
    if declared == "structured" or (not declared and len(objects) >= LEAST_STRUCTURED * len(answers)):
        return _find_structure(answers, objects, declared)
    return _find_set(answers, declared)


def _find_structure(answers: Sequence[str], objects: Sequence[Mapping[str, Any]], declared: str) -> AnswerKind:
    count = Counter(name for value in objects for name in value)
    fields = tuple(name for name, times in count.items() if times >= LEAST_STRUCTURED * len(objects))
    if not fields and not declared:
        return AnswerKind(
            "free", f"{len(objects)} of {len(answers)} accepted answers are JSON, without a field in common"
        )
    reason = f"{len(objects)} of {len(answers)} accepted answers are JSON objects with {', '.join(fields[:SHOWN])}"
    return AnswerKind("structured", _DECLARED if declared else reason, fields=fields)


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
