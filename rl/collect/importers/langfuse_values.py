"""Which of Langfuse's scores are opinions, and which are figures.

A score that a judge model gave (source EVAL) is not a person's opinion. Others are where their name says so (RATINGS) and
their values look like it: truth values, 0 … 1, -1 … 1, or 1 … 5 over the whole file. All the rest become outcomes under
their own name: a latency of 0.4 is not a bad mark.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal

from rl.collect.importers.fields import NotForUs, Refused, moment, notes, number, required_text, tags, text
from rl.collect.limits import MAX_METRIC_LENGTH, MAX_RATER_LENGTH
from rl.collect.traces.imported import ImportedFeedback

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
_GOOD = frozenset({"good", "positive", "up", "yes", "true", "correct", "helpful", "like", "thumbsup", "pass"})
_BAD = frozenset({"bad", "negative", "down", "no", "false", "incorrect", "unhelpful", "dislike", "thumbsdown", "fail"})
_NO_SCORES = frozenset(
    {"tags", "traceTags", "trace_tags", "toolCalls", "tool_calls", "toolCallNames", "tool_call_names"}
)
"""Lists that a table has anyway."""
Range = tuple[float, float]


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


def ranges(scores: Iterable[Mapping[str, Any]]) -> dict[str, Range]:
    """The smallest and the largest value of each score that may be a rating."""
    value_ranges: dict[str, Range] = {}
    for score in scores:
        name, value = _plain(score.get("name")), score.get("value")
        if name in RATINGS and isinstance(value, (int, float, str)):
            try:
                amount = number(score, "value")
            except Refused:
                continue
            if amount is not None:
                low, high = value_ranges.get(name, (amount, amount))
                value_ranges[name] = min(low, amount), max(high, amount)
    return value_ranges


def feedback(score: Mapping[str, Any], value_ranges: Mapping[str, Range]) -> ImportedFeedback:
    """``score`` has the names of Langfuse's API. Raises Refused."""
    name = required_text(score, "name")
    kind = text(score, "dataType").upper()
    label, value = text(score, "stringValue"), number(score, "value")
    common: dict[str, Any] = {
        "tags": tags(name, label if kind == "CATEGORICAL" else None),
        "notes": notes(text(score, "comment")),
        "rated_at": moment(score, "timestamp") or moment(score, "createdAt"),
    }
    if text(score, "source").upper() != "EVAL" and _plain(name) in RATINGS:
        scale, rating = _rating(kind, _plain(label), value, value_ranges.get(_plain(name)))
        if rating is not None:
            return ImportedFeedback(kind="rating", rater=_rater(score, name), scale=scale, value=rating, **common)
    if value is None or kind == "TEXT":
        raise NotForUs("a score without a number, and no word for good or bad")
    rater, metric = f"system:langfuse:{name}"[:MAX_RATER_LENGTH], name[:MAX_METRIC_LENGTH]
    return ImportedFeedback(kind="outcome", rater=rater, metric=metric, value=value, **common)


def _rating(
    kind: str, label: str, value: float | None, value_range: Range | None
) -> tuple[Literal["thumb", "stars", "score", ""], float | None]:
    if label in _GOOD or label in _BAD:
        return "thumb", float(label in _GOOD)
    if value is None or kind in ("CATEGORICAL", "TEXT"):
        return "", None
    if kind == "BOOLEAN" and value in (0, 1):
        return "thumb", value
    low, high = value_range or (value, value)
    if low >= 0 and high <= 1:
        return "score", value
    if low >= -1 and high <= 1:
        return "score", (value + 1) / 2
    if low >= 1 and high <= 5:
        return "score", (value - 1) / 4
    return "", None


def _rater(score: Mapping[str, Any], name: str) -> str:
    """One for each person and name: who finds an answer correct and useless has said two things."""
    who = text(score, "authorUserName") or text(score, "authorUserId")
    index = score.get("place") or ""
    return ":".join(filter(None, ("langfuse", who, name, str(index))))[:MAX_RATER_LENGTH]


def _plain(name: object) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower()) if isinstance(name, str) else ""
