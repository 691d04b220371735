"""A command's options as a frozen dataclass: each field is declared once, with the argument that fills it, and argparse's
dictionary is read once, at the door."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from django.core.management.base import CommandParser

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    Options = TypeVar("Options", bound=DataclassInstance)


_OWN_FLAG = "--"
_TYPES = {"int": int, "float": float, "Path": Path}


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


@dataclass(frozen=True, slots=True)
class NoOptions:
    """Those of a command that has none of its own."""


def argument(
    *flags: str, one_of: str = "", also: Mapping[str, Mapping[str, Any]] | None = None, **settings: Any
) -> Any:
    """A field that is filled by an argument.

    ``flags``: as argparse takes them, as it takes the ``settings``; none: a positional argument with the field's name.
    ``choices`` may be a function that gives them when a command begins.
    ``one_of``: a word that those have in common of which at most one may be given. ``also``: further flags for the same
    field, with settings of their own; only one of all may be given.
    """
    return field(metadata={"flags": flags, "one_of": one_of, "also": also or {}, "settings": settings})


def option(*more_flags: str, **settings: Any) -> Any:
    """As ``argument``; the first flag is the field's name with dashes, and numbers and paths are read as annotated."""
    return argument(_OWN_FLAG, *more_flags, **settings)


def add_arguments(parser: CommandParser, kind: type[DataclassInstance], title: str = "", *, own: bool = False) -> None:
    """In the order of the fields. ``title``: they stand in a group of their own. ``own``: without inherited ones."""
    container: Any = parser.add_argument_group(title) if title else parser
    exclusive: dict[str, Any] = {}
    entries = {entry.name: entry for entry in fields(kind) if entry.metadata}
    for entry in [entries[name] for name in kind.__annotations__ if name in entries] if own else entries.values():
        flags, also = entry.metadata["flags"], entry.metadata["also"]
        within = container
        if group := entry.metadata["one_of"] or (also and entry.name):
            within = exclusive[group] = exclusive.get(group) or container.add_mutually_exclusive_group()
        settings: dict[str, Any] = {"dest": entry.name} if flags else {}
        settings |= entry.metadata["settings"]
        if _OWN_FLAG in flags:
            flags = [f"--{entry.name.replace('_', '-')}", *flags[1:]]
            if "action" not in settings:
                settings = {"type": _TYPES.get(str(entry.type).removesuffix(" | None")), **settings}
        if callable(choices := settings.get("choices")):
            settings["choices"] = choices()
        within.add_argument(*(flags or [entry.name]), **settings)
        for flag, more in also.items():
            within.add_argument(flag, dest=entry.name, **more)


def read_options(kind: type[Options], arguments: Mapping[str, Any]) -> Options:
    """What ``kind`` has fields for; Django's own and those of other subcommands are left out. Raises TypeError for a
    field that the command's parser does not define: a mistake in the command."""
    names = [field.name for field in fields(kind)]
    if missing := [name for name in names if name not in arguments]:
        raise TypeError(f"{kind.__module__}.{kind.__qualname__}: no argument of the command is called {missing[0]!r}")
    return kind(**{name: arguments[name] for name in names})


def texts_of(arguments: Mapping[str, Any]) -> list[str]:
    """Every text and path among them, those in lists too."""
    lists = [value if isinstance(value, list | tuple) else (value,) for value in arguments.values()]
    return [str(value) for values in lists for value in values if isinstance(value, str | Path)]
