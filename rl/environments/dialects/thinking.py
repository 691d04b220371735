"""What a model says to itself before it speaks is not part of its answer, and calls no tools."""

from __future__ import annotations

import re

_CLOSED = re.compile(r"\A.*(?:</think>|\[/THINK\])", re.DOTALL)
_OPEN = re.compile(r"(?:<think>|\[THINK\]).*\Z", re.DOTALL)


def without_thinking(text: str) -> str:
    """Thoughts that were cut off before their end leave nothing."""
    return _OPEN.sub("", _CLOSED.sub("", text)).strip()
