"""Environment variables that a configuration gives to programs: secrets by name alone."""

from __future__ import annotations

import re
from collections.abc import Iterable

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
