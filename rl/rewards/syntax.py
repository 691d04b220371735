"""Is this text what it says it is? One check for each language: True, False, or None where that cannot be told.

Texts come from strangers. Each parser was tried on nested, endless and cut input: what makes one give up (recursion, memory)
is None, never an answer. Shell is read by bash itself inside the sandbox: the grammars that run in this process crash it."""

import ast
import json
import logging
import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
from itertools import accumulate
from typing import NoReturn

from rl import sandbox
from rl.base.errors import SandboxUnavailable
from rl.base.records import TraceRecord
from rl.rewards.base import BaseReward, RewardResult
from rl.rewards.blocks import fenced_blocks

SQL_DIALECTS = ("", "postgres", "sqlite", "mysql", "tsql")
"""An answer seldom says which it means: what one of them takes is SQL."""
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
    # brackets in strings and comments count too
    depths = accumulate(1 if character in "([{" else -1 for character in text if character in "()[]{}")
    if len(text) > LONGEST or max(depths, default=0) > DEEPEST:
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


def is_sql(text: str) -> bool:
    """At least one statement, and every one can be read. Raises RecursionError where they are nested too deep."""
    import sqlglot
    from sqlglot import exp

    # it warns with the text of statements that it does not look into
    logging.getLogger("sqlglot").setLevel(logging.ERROR)
    # what sqlglot makes of plain words: ``hello world`` is a column with an alias
    words = (exp.Condition, exp.Alias, exp.Aliases, exp.Identifier, exp.Tuple, exp.Star, exp.Interval)
    for dialect in SQL_DIALECTS:
        with suppress(sqlglot.errors.SqlglotError):
            statements = [statement for statement in sqlglot.parse(text, dialect=dialect) if statement is not None]
            if statements and not any(isinstance(statement, words) for statement in statements):
                return True
    return False


def is_shell(text: str) -> bool | None:
    """None without a sandbox."""
    try:
        result = sandbox.run(_NOEXEC, "shell", stdin=text, limits=_LIMITS)
    except SandboxUnavailable:
        return None
    return {0: True, _SYNTAX_ERROR: False}.get(result.exit)


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")


CHECKS: Mapping[str, Callable[[str], bool | None]] = {
    "python": is_python,
    "json": is_json,
    "shell": is_shell,
    "yaml": is_yaml,
    "sql": is_sql,
}

MOST_BLOCKS = 20


class SyntaxValidationReward(BaseReward):
    """The share of the fenced python, json, shell, yaml and sql blocks that their parser takes. Nothing is run."""

    name = "syntax_validation"
    weight = 1.0

    def compute(self, trace: TraceRecord) -> RewardResult:
        blocks = fenced_blocks(trace.response)
        if blocks is None:
            return self.abstains("the answer is too long to look at")
        known = [block for block in blocks if block.language in CHECKS][:MOST_BLOCKS]
        if not known:
            return self.abstains("it has no code block in python, json, shell, yaml or sql")
        judgements = [(block.language, is_valid(block.language, block.code)) for block in known]
        verdicts = [valid for _, valid in judgements if valid is not None]
        details = {"blocks": [{"language": language, "valid": valid} for language, valid in judgements]}
        if not verdicts:
            return self.abstains("its blocks are too long or too deep, or shell without a sandbox", **details)
        good = sum(verdicts)
        return self.gives(good / len(verdicts), f"{good} of {len(verdicts)} code blocks can be parsed", **details)
