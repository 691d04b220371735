"""What a configuration gives to programs: their arguments, and environment variables, secrets by name alone."""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from rl.base.errors import UsageError

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SECRET = re.compile(r"(.*_)?(api_?key|key|token|secret|password)", re.IGNORECASE)


def require_names(where: str, names: Iterable[str]) -> None:
    """Raises UsageError for what is not a variable's name: it may be the secret itself, so it is not told."""
    if not all(_VARIABLE.fullmatch(name) for name in names):
        raise UsageError(f"{where} must name environment variables, not hold values")


def require_no_secrets(where: str, names: Iterable[str]) -> None:
    """Raises UsageError for a name that secrets have."""
    for name in names:
        if _SECRET.fullmatch(name):
            raise UsageError(f"{where} must not hold {name}: env_from takes it from our environment")


def require_texts(where: str, value: Any, example: str) -> tuple[str, ...]:
    """Raises UsageError for what is not a list of texts."""
    if not isinstance(value, list | tuple) or not all(isinstance(text, str) and text for text in value):
        raise UsageError(f"{where} must be a list of texts, like {example}")
    return tuple(value)


def require_named_texts(where: str, value: Any) -> None:
    """Raises UsageError."""
    if not isinstance(value, Mapping) or not all(isinstance(text, str) for pair in value.items() for text in pair):
        raise UsageError(f"{where} must be names with texts: numbers, true and false go in quotes")
