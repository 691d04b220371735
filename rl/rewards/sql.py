"""The same for SQL."""

from __future__ import annotations

import logging

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

DIALECTS = ("", "postgres", "sqlite", "mysql", "tsql")
"""An answer seldom says which it means: what one of them takes is SQL."""
_NO_STATEMENT = (exp.Condition, exp.Alias, exp.Aliases, exp.Identifier, exp.Tuple, exp.Star, exp.Interval)
"""What sqlglot makes of plain words: ``hello world`` is a column with an alias."""

logging.getLogger("sqlglot").setLevel(logging.ERROR)  # it warns with the text of statements that it does not look into


def is_sql(text: str) -> bool:
    """At least one statement, and every one can be read. Raises RecursionError where they are nested too deep."""
    return any(_readable(text, dialect) for dialect in DIALECTS)


def _readable(text: str, dialect: str) -> bool:
    try:
        statements = [statement for statement in sqlglot.parse(text, dialect=dialect) if statement is not None]
    except SqlglotError:
        return False
    return bool(statements) and not any(isinstance(statement, _NO_STATEMENT) for statement in statements)
