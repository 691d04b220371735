"""Which of Langfuse's scores are opinions, and which are figures.

A score that a judge model gave (source EVAL) is not a person's opinion. Others are where their name says so (RATINGS) and
their values look like it: truth values, words, and numbers of 0 … 1, -1 … 1, or 1 … 5 over the whole file, or of the scale
that the operator names. All the rest become outcomes under their own name: a latency of 0.4 is not a bad mark.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

from rl.base.errors import BadFile, UsageError
from rl.collect.importers.fields import NotForUs, Refused, moment, notes, number, required_text, tags, text
from rl.collect.importers.thumbs import word_thumb
from rl.collect.limits import MAX_METRIC_LENGTH, MAX_RATER_LENGTH
from rl.collect.traces.imported import ImportedFeedback

Range = tuple[float, float]
"""The worst value and the best."""
RATINGS = frozenset(
    {
        "feedback",
        "userfeedback",
        "humanfeedback",
        "rating",
        "userrating",
        "thumb",
        "thumbs",
        "thumbsup",
        "like",
        "liked",
        "helpful",
        "helpfulness",
        "correct",
        "correctness",
        "useful",
        "usefulness",
        "quality",
        "overall",
        "satisfaction",
    }
)
"""Names without case, spaces and signs."""
_SCALES: tuple[Range, ...] = ((0, 1), (-1, 1), (1, 5))
"""What values look like; the first that holds them all."""
_NO_NUMBERS = ("BOOLEAN", "CATEGORICAL", "TEXT")
_THUMBS = frozenset({"thumb", "thumbs", "thumbsup", "like", "liked"})
"""Names of scores whose best value is 1."""
_NO_SCORES = frozenset(
    {"tags", "traceTags", "trace_tags", "toolCalls", "tool_calls", "toolCallNames", "tool_call_names"}
)
"""Lists that a table has anyway."""
_SCALE = re.compile(r"(?:(?P<name>.+)=)?(?P<low>-?[0-9.]+)\.\.(?P<high>-?[0-9.]+)")


def is_scores(name: str, value: object) -> bool:
    """Is this a column of scores in an exported table of answers? It has the name of the score and a list of its values."""
    if name in _NO_SCORES:
        return False
    return isinstance(value, list) and bool(value) and all(isinstance(entry, (int, float, str)) for entry in value)


def column_scores(columns: Mapping[str, list[Any]]) -> Iterator[dict[str, Any]]:
    """Such columns as scores."""
    for name, values in columns.items():
        for index, value in enumerate(values):
            kind = {"stringValue": value, "dataType": "CATEGORICAL"} if isinstance(value, str) else {"value": value}
            yield {"name": name, **kind, "place": index}


def read_scales(scales: Iterable[str]) -> dict[str, Range]:
    """``1..5``, or of one score ``user-rating=1..5``: the range by the name, empty for all. Raises UsageError."""
    read: dict[str, Range] = {}
    for scale in scales:
        match = _SCALE.fullmatch(scale)
        low, high = (_amount(match["low"]), _amount(match["high"])) if match else (None, None)
        if match is None or low is None or high is None or low >= high:
            raise UsageError(
                f"--scale must be LOW..HIGH or NAME=LOW..HIGH, such as user-rating=1..5, not {scale!r:.60}"
            )
        read[plain(match["name"])] = low, high
    return read


def scales_of(scores: Iterable[Mapping[str, Any]], path: Path, given: Mapping[str, Range]) -> dict[str, Range]:
    """The worst and the best value of each score that is a rating: what was said, else what its values look like. Raises
    BadFile where all are 1, the best of 0 to 1 and the worst of 1 to 5."""
    scales: dict[str, Range] = {}
    for name, (seen, written) in _ranges(scores).items():
        scale = given.get(name) or given.get("")
        if scale is None and seen == (1, 1) and name not in _THUMBS:
            raise BadFile(
                path,
                f"all values of the score {written!r:.60} are 1: the best of 0 to 1, or the worst of 1 to 5? "
                f"say --scale {written!r:.60}=0..1 or --scale {written!r:.60}=1..5",
            )
        scale = scale or next((known for known in _SCALES if known[0] <= seen[0] and seen[1] <= known[1]), None)
        if scale is not None:
            scales[name] = scale
    return scales


def _ranges(scores: Iterable[Mapping[str, Any]]) -> dict[str, tuple[Range, str]]:
    """The smallest and the largest value of each score that people may have given as a number, and how it is written."""
    value_ranges: dict[str, tuple[Range, str]] = {}
    for score in scores:
        name, amount = plain(score.get("name")), _amount(score.get("value"))
        if name in RATINGS and amount is not None and _kind(score) not in _NO_NUMBERS and not _is_by_model(score):
            (low, high), written = value_ranges.get(name, ((amount, amount), score["name"]))
            value_ranges[name] = (min(low, amount), max(high, amount)), written
    return value_ranges


def _amount(value: object) -> float | None:
    try:
        return number({"": value}, "")
    except Refused:
        return None


def _kind(score: Mapping[str, Any]) -> str:
    return str(score.get("dataType") or "").upper()


def _is_by_model(score: Mapping[str, Any]) -> bool:
    return str(score.get("source") or "").upper() == "EVAL"


def feedback(score: Mapping[str, Any], scales: Mapping[str, Range]) -> ImportedFeedback:
    """``score`` has the names of Langfuse's API. Raises Refused."""
    name = required_text(score, "name")
    kind, value = _kind(score), _amount(score.get("value"))
    word = "" if value is not None else score.get("value")
    label = text(score, "stringValue") or (str(word) if isinstance(word, bool) else text({"value": word}, "value"))
    common: dict[str, Any] = {
        "tags": tags(name, label if kind == "CATEGORICAL" else None),
        "notes": notes(text(score, "comment")),
        "rated_at": moment(score, "timestamp") or moment(score, "createdAt"),
    }
    if not _is_by_model(score) and plain(name) in RATINGS:
        scale, rating = _rating(kind, label, value, scales.get(plain(name)))
        if rating is not None:
            return ImportedFeedback(kind="rating", rater=_rater(score, name), scale=scale, value=rating, **common)
    if value is None or kind == "TEXT":
        raise NotForUs("a score without a number, and no word for good or bad")
    rater, metric = f"system:langfuse:{plain(name)}"[:MAX_RATER_LENGTH], name[:MAX_METRIC_LENGTH]
    return ImportedFeedback(kind="outcome", rater=rater, metric=metric, value=value, **common)


def _rating(
    kind: str, label: str, value: float | None, scale: Range | None
) -> tuple[Literal["thumb", "score", ""], float | None]:
    if (good := word_thumb(label)) is not None:
        return "thumb", good
    if value is None or kind in ("CATEGORICAL", "TEXT"):
        return "", None
    if kind == "BOOLEAN" and value in (0, 1):
        return "thumb", value
    if scale is None:
        return "", None
    low, high = scale
    if not low <= value <= high:
        raise Refused(f"the value {value:g} is outside the scale {low:g}..{high:g}")
    return "score", (value - low) / (high - low)


def _rater(score: Mapping[str, Any], name: str) -> str:
    """One for each person and name, however it is spelled: who finds an answer correct and useless has said two things."""
    who = text(score, "authorUserName") or text(score, "authorUserId")
    index = score.get("place") or ""
    return ":".join(filter(None, ("langfuse", who, plain(name), str(index))))[:MAX_RATER_LENGTH]


def plain(name: object) -> str:
    """Without case, spaces and signs; a name that is nothing else stays as it is."""
    return re.sub(r"[\W_]", "", name.lower()) or name if isinstance(name, str) else ""
