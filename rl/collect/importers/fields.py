"""Fields of records from outside. What is missing or of the wrong type is refused with the name of the field."""

import json
import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from hashlib import blake2b
from math import isfinite
from typing import Any

from rl.collect.limits import MAX_ID_LENGTH, MAX_NOTES_LENGTH, MAX_TAG_LENGTH, MAX_TAGS, MAX_WHOLE_NUMBER

_MILLISECONDS = 1e11
"""Seconds since 1970 are smaller for the next 3,000 years, milliseconds have been larger since 1973."""


class Refused(ValueError):
    """Why a record is not taken."""


class NotForUs(Refused):
    """A record that is as the format has it, and says nothing that can be stored."""


def obj(row: Mapping[str, Any], name: str) -> dict[str, Any]:
    """An object, also as JSON text, as tables hold it; empty where there is none."""
    value = from_text(row.get(name))
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise Refused(f"{name} must be an object, not {value!r:.50}")
    return value


def from_text(value: object) -> Any:
    """What JSON text says; anything else as it is."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return value


def text(row: Mapping[str, Any], name: str) -> str:
    """Text; empty where there is none. A number that stands for a name is taken as text."""
    value = row.get(name)
    if value is None:
        return ""
    if isinstance(value, bool) or not isinstance(value, (str, int)):
        raise Refused(f"{name} must be text, not {value!r:.50}")
    return str(value)


def required_text(row: Mapping[str, Any], name: str) -> str:
    value = text(row, name)
    if not value.strip():
        raise Refused(f"{name} is missing or empty")
    return value


def identity(row: Mapping[str, Any], name: str) -> str:
    """A name that fits the columns of ids; empty where there is none."""
    value = text(row, name)
    if len(value) > MAX_ID_LENGTH:
        raise Refused(f"{name} is longer than {MAX_ID_LENGTH} characters")
    return value


def number(row: Mapping[str, Any], name: str) -> float | None:
    """Also written as text, as in CSV."""
    value = row.get(name)
    if value is None or value == "":
        return None
    try:
        parsed = float(value) if isinstance(value, (int, float, str)) and not isinstance(value, bool) else float("nan")
    except (ValueError, OverflowError):
        parsed = float("nan")
    if not isfinite(parsed):
        raise Refused(f"{name} must be a number, not {value!r:.50}")
    return parsed


def count(row: Mapping[str, Any], name: str) -> int | None:
    """A whole number from 0; anything else is not known: figures beside an answer are not a reason to lose it."""
    value = row.get(name)
    if isinstance(value, str) and re.fullmatch("[0-9]{1,10}", value):
        value = int(value)
    is_count = isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MAX_WHOLE_NUMBER
    return value if is_count else None


def moment(row: Mapping[str, Any], name: str) -> datetime | None:
    """ISO 8601, or seconds or milliseconds since 1970; without a zone it is UTC."""
    value = row.get(name)
    if value is None or value == "":
        return None
    try:
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return datetime.fromtimestamp(value / 1000 if abs(value) > _MILLISECONDS else value, UTC)
        time = datetime.fromisoformat(value)
        return (time if time.tzinfo else time.replace(tzinfo=UTC)).astimezone(UTC)
    except (TypeError, ValueError, OverflowError, OSError):
        raise Refused(f"{name} must be a time in ISO 8601, or seconds since 1970, not {value!r:.50}") from None


def notes(*parts: str) -> str:
    """Longer ones are cut: a judge's endless reasoning is not a reason to lose the rating."""
    joined = "\n".join(filter(None, parts))
    return joined if len(joined) <= MAX_NOTES_LENGTH else joined[: MAX_NOTES_LENGTH - 1] + "…"


def tags(*values: object) -> tuple[str, ...]:
    """Texts, and texts in lists: each once, the first of them, cut to what a tag may be."""
    flat = (tag for value in values for tag in (value if isinstance(value, list) else [value]))
    texts = {tag.strip()[:MAX_TAG_LENGTH]: None for tag in flat if isinstance(tag, str) and tag.strip()}
    return tuple(texts)[:MAX_TAGS]


def content_hash(*parts: object) -> str:
    """The same JSON values have the same one, in whatever order their keys are."""
    return "content-" + blake2b(_CANONICAL.encode(parts).encode(), digest_size=20).hexdigest()


_CANONICAL = json.JSONEncoder(sort_keys=True, ensure_ascii=True, separators=(",", ":"), default=str)


def others(row: Mapping[str, Any], known: Iterable[str]) -> dict[str, Any]:
    """The fields that have no place of their own, for the details."""
    taken = frozenset(known)
    return {name: value for name, value in row.items() if name not in taken and value is not None}


_GOOD_WORDS = """accept accepted accurate approve approved chosen correct desirable excellent good great happy helpful
    like liked pass passed positive preferred right satisfied success thumbsup thumbup true up upvote useful yes
    👍 ✅ ❤ 😀 🙂 😊"""
_BAD_WORDS = """bad dislike disliked dissatisfied down downvote fail failed failure false inaccurate incorrect negative no
    poor reject rejected thumbsdown thumbdown undesirable unhappy unhelpful unsatisfied useless wrong
    👎 ❌ 😞 🙁 😡"""
_GOOD, _BAD = frozenset(_GOOD_WORDS.split()), frozenset(_BAD_WORDS.split())
_DECORATION = re.compile("[\U0001f3fb-\U0001f3ff\ufe0f]")
"""Colours of skin, and what makes a sign a picture."""
_SIGNS = re.compile(r"[\s_\-:.!,'\"]+")
_NUMBERS = {"1": 1.0, "1.0": 1.0, "0": 0.0, "0.0": 0.0}


def as_word(value: object) -> str:
    """A verdict in small letters; 1 and 1.0 are the same word."""
    return f"{value:g}" if isinstance(value, (int, float)) else str(value).strip().lower()


def thumb(value: object) -> float | None:
    """1.0 for good, 0.0 for bad: truth values, 1 and 0, and words in any case and with any signs; None for all else."""
    if isinstance(value, (bool, int, float)):
        return float(value) if value in (0, 1) else None
    return _NUMBERS.get(value.strip(), word_thumb(value)) if isinstance(value, str) else None


def word_thumb(value: str) -> float | None:
    """As ``thumb``, of words alone: ``Thumbs up``, ``not helpful``, 👎."""
    word = _SIGNS.sub("", _DECORATION.sub("", value)).lower()
    if word in _GOOD or word in _BAD:
        return float(word in _GOOD)
    return 0.0 if word.removeprefix("not") in _GOOD else None
