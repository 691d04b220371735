"""Is this text what it says it is? One check for each language: True, False, or None where that cannot be told.

Texts come from strangers. Each parser was tried on nested, endless and cut input: what makes one give up (recursion, memory)
is None, never an answer. Shell is read by bash itself inside the sandbox: the grammars that run in this process crash it.
"""

from __future__ import annotations

import ast
import json
import warnings
from collections.abc import Callable, Mapping
from itertools import accumulate
from typing import NoReturn

from rl import sandbox
from rl.base.errors import SandboxUnavailable

LONGEST = 16_384
"""Characters; a longer text is not judged."""
DEEPEST = 200
"""Brackets open at one time; a deeper text is not judged: some parsers take the square of it."""
_NOEXEC = "command -v bash >/dev/null && exec bash -n\nexec sh -n"
_SYNTAX_ERROR = 2
"""Exit code of bash and sh."""
_LIMITS = sandbox.Limits(wall_seconds=2, cpu_seconds=2)


def is_valid(language: str, text: str) -> bool | None:
    """``language`` is one of CHECKS."""
    if len(text) > LONGEST or _depth(text) > DEEPEST:
        return None
    try:
        return CHECKS[language](text)
    except (RecursionError, MemoryError):
        return None


def is_python(text: str) -> bool:
    try:
        with warnings.catch_warnings(action="ignore"):
            ast.parse(text)
    except (SyntaxError, ValueError):
        return False
    return True


def is_json(text: str) -> bool:
    """RFC 8259: without NaN and Infinity."""
    try:
        json.loads(text, parse_constant=_refuse)
    except ValueError:
        return False
    return True


def is_yaml(text: str) -> bool:
    """Reads events only: aliases are not followed, so they cannot blow up, and tags build nothing."""
    import yaml

    anchors: set[str | None] = set()
    try:
        for event in yaml.parse(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
            if isinstance(event, yaml.DocumentStartEvent):
                anchors = set()
            elif isinstance(event, yaml.AliasEvent):
                if event.anchor not in anchors:
                    return False
            elif isinstance(event, yaml.NodeEvent):
                anchors.add(event.anchor)
    except (yaml.YAMLError, ValueError):
        return False
    return True


def _is_sql(text: str) -> bool:
    from rl.rewards.sql import is_sql

    return is_sql(text)


def is_shell(text: str) -> bool | None:
    """None without a sandbox."""
    try:
        result = sandbox.run(_NOEXEC, "shell", stdin=text, limits=_LIMITS)
    except SandboxUnavailable:
        return None
    return {0: True, _SYNTAX_ERROR: False}.get(result.exit)


def _depth(text: str) -> int:
    """Brackets in strings and comments count too."""
    steps = (1 if character in "([{" else -1 for character in text if character in "()[]{}")
    return max(accumulate(steps), default=0)


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")


CHECKS: Mapping[str, Callable[[str], bool | None]] = {
    "python": is_python,
    "json": is_json,
    "shell": is_shell,
    "yaml": is_yaml,
    "sql": _is_sql,
}
