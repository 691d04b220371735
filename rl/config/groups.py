"""Which details of questions make groups, such as the language or the plan of whoever asks: an agent names them."""

import re
from typing import Final

from rl.base.errors import UsageError

MOST_KEYS: Final = 4
_KEY: Final = re.compile(r"[A-Za-z][\w-]{0,39}", re.ASCII)


def read_group_keys(text: str) -> tuple[str, ...]:
    """Such as "language, plan". Raises UsageError."""
    keys = tuple(key.strip() for key in text.split(",") if key.strip())
    if wrong := next((key for key in keys if not _KEY.fullmatch(key)), None):
        raise UsageError(f"{wrong[:40]!r} is not a key: a letter, then letters, digits, _ and -, at most 40")
    if len(keys) > MOST_KEYS or len(set(keys)) < len(keys):
        raise UsageError(f"at most {MOST_KEYS} keys, each of them once")
    return keys
