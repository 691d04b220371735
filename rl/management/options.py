"""A command's options as a frozen dataclass: argparse's dictionary is read once, at the door."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    Options = TypeVar("Options", bound=DataclassInstance)


@dataclass(frozen=True, slots=True)
class SharedOptions:
    """The options that every command has."""

    json: bool
    verbosity: int
    no_color: bool


@dataclass(frozen=True, slots=True)
class Action:
    """The subcommand that was called, for commands that have several; each has options of its own."""

    action: str


def read_options(kind: type[Options], arguments: Mapping[str, Any]) -> Options:
    """What ``kind`` has fields for; Django's own and those of other subcommands are left out.

    Raises TypeError for a field that the command's parser does not define: a mistake in the command.
    """
    names = [field.name for field in fields(kind)]
    if missing := [name for name in names if name not in arguments]:
        raise TypeError(f"{kind.__module__}.{kind.__qualname__}: no argument of the command is called {missing[0]!r}")
    return kind(**{name: arguments[name] for name in names})


def texts_of(arguments: Mapping[str, Any]) -> list[str]:
    """Every text and path among them, those in lists too."""
    lists = [value if isinstance(value, list | tuple) else (value,) for value in arguments.values()]
    return [str(value) for values in lists for value in values if isinstance(value, str | Path)]
