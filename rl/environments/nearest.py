"""Did you mean this name?."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def did_you_mean(name: object, known: Iterable[str]) -> str:
    """What to add to a sentence about an unknown name; empty where nothing known is like it."""
    found = difflib.get_close_matches(str(name), list(known), n=1)
    return f" (did you mean {found[0]}?)" if found else ""
