"""A command's options as a frozen dataclass: each field is declared once, with the argument that fills it, and argparse's
dictionary is read once, at the door."""

import argparse
import socket
from collections.abc import Mapping
from dataclasses import Field, dataclass, field, fields
from pathlib import Path
from typing import Any, ClassVar, TypeVar, dataclass_transform, get_type_hints

from django.core.management.base import CommandParser

from rl.base.errors import UsageError

_OWN_FLAG = "--"
_TYPES = {hint: kind for kind in (int, float, Path) for hint in (kind, kind | None)}


def argument(
    *flags: str, one_of: str = "", also: Mapping[str, Mapping[str, Any]] | None = None, **settings: Any
) -> Any:
    """A field that is filled by an argument.

    ``flags``: as argparse takes them, as it takes the ``settings``; none: a positional argument with the field's name.
    ``choices`` may be a function that gives them when a command begins.
    ``one_of``: a word that those have in common of which at most one may be given. ``also``: further flags for the same
    field, with settings of their own; only one of all may be given."""
    return field(metadata={"flags": flags, "one_of": one_of, "also": also or {}, "settings": settings})


def option(*more_flags: str, **settings: Any) -> Any:
    """As ``argument``; the first flag is the field's name with dashes, and numbers and paths are read as annotated."""
    return argument(_OWN_FLAG, *more_flags, **settings)


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(argument, option))
class CommandOptions:
    """Every subclass is a frozen dataclass, without a decorator."""

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    def __init_subclass__(cls) -> None:
        dataclass(frozen=True, kw_only=True)(cls)


Options = TypeVar("Options", bound=CommandOptions)


class SharedOptions(CommandOptions):
    """The options that every command has."""

    json: bool
    verbosity: int
    no_color: bool


class Subcommand(CommandOptions):
    """The subcommand that was called, for commands that have several; each has options of its own."""

    action: str


class NoOptions(CommandOptions):
    """Those of a command that has none of its own."""


def add_arguments(parser: CommandParser, kind: type[CommandOptions], title: str = "", *, own: bool = False) -> None:
    """In the order of the fields. ``title``: they stand in a group of their own. ``own``: without inherited ones."""
    container: Any = parser.add_argument_group(title) if title else parser
    exclusive: dict[str, Any] = {}
    entries, hints = {entry.name: entry for entry in fields(kind) if entry.metadata}, get_type_hints(kind)
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
                settings = {"type": _TYPES.get(hints[entry.name]), **settings}
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


def parts_of(text: str) -> list[str]:
    """The parts of a list that is written with commas, without empty ones."""
    return [part.strip() for part in text.split(",") if part.strip()]


def texts_of(arguments: Mapping[str, Any]) -> list[str]:
    """Every text and path among them, those in lists too."""
    lists = [value if isinstance(value, list | tuple) else (value,) for value in arguments.values()]
    return [str(value) for values in lists for value in values if isinstance(value, str | Path)]


def port_number(text: str) -> int:
    """Reads the number of a port, as a type of argparse."""
    if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port: a number from 1 to 65535")
    return int(text)


def require_free(port: int, host: str = "127.0.0.1") -> None:
    """Raises UsageError when another program listens there, or the address is not one of this machine."""
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            reason = error.strerror or str(error)
            raise UsageError(f"port {port} of {host} cannot be used ({reason}); choose another with --port") from error
