"""What all commands share: ``--json``, exit codes, results on stdout and progress on stderr.

A command declares its options as a frozen dataclass of rl/management/options.py, and ``run`` gets them.
Exit codes: 0 done, 1 failed, 2 usage, 3 not enough data, 4 gate rejected, 130 interrupted."""

import json
from argparse import SUPPRESS
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, ClassVar, Final, Literal, cast, get_type_hints

from django.conf import settings
from django.core.checks import Tags
from django.core.exceptions import ValidationError
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import DatabaseError
from django.db.models import Exists, Model, OuterRef
from rich.console import Console
from rich.table import Table

from rl.base.disk_space import tells_of_full_disk
from rl.base.errors import RatchetError, UsageError
from rl.base.outside_files import refuse_device
from rl.base.records import Report
from rl.checks import TAG
from rl.management.options import NoOptions, SharedOptions, Subcommand, add_arguments, read_options, texts_of
from rl.models import Agent, Feedback, ModelVersion, Trace
from rl.runs.progress import ProgressLine

_OF_PAGES: Final = {Tags.admin, Tags.templates, Tags.urls}
CHECKS: Final = tuple(sorted({TAG, *(tag for name, tag in vars(Tags).items() if not name.startswith("_"))} - _OF_PAGES))
"""All but those of pages, which import each of them: that takes as long as all else that a command does at first."""

_LONGEST = 1500
"""Characters of an error's line."""


class RatchetCommand(BaseCommand):
    """Subclasses write ``run``, which ends with ``self.result(...)``. The command's options are the kind that it takes."""

    requires_system_checks: list[str] | tuple[str, ...] | Literal["__all__"] = CHECKS

    def get_version(self) -> str:
        """Ratchet's, where Django has its own."""
        return f"Ratchet {settings.VERSION}"

    def create_parser(self, prog_name: str, subcommand: str, **kwargs: Any) -> CommandParser:
        """``--version`` names a model version where a command has such an option. No option is taken for another that begins
        alike."""
        kwargs = {"conflict_handler": "resolve", "allow_abbrev": False, **kwargs}
        return super().create_parser(prog_name, subcommand, **kwargs)

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--json", action="store_true", help="print one JSON document on stdout")
        self.add_options(parser)

    @property
    def options(self) -> type[Any]:
        return _kind_of(self.run) or NoOptions

    def add_options(self, parser: CommandParser) -> None:
        add_arguments(parser, self.options)

    def run(self, options: Any) -> None:  # noqa: ARG002  the command's own has them
        raise TypeError(f"{type(self).__name__} does not say what it does")

    def act(self, arguments: Mapping[str, Any]) -> None:
        self.run(read_options(self.options, arguments))

    def handle(self, *args: Any, **arguments: Any) -> None:
        shared, texts = read_options(SharedOptions, arguments), texts_of(arguments)
        self.as_json = shared.json
        console = Console(stderr=True, no_color=shared.no_color or None, quiet=shared.verbosity == 0)
        self.report = ProgressLine(console)
        try:
            for text in texts:  # none of ours may be read without end, waited for, or replaced
                refuse_device(text)
            self.act(arguments)
        except RatchetError as error:
            raise CommandError(_one_line(str(error)), returncode=error.exit_code) from error
        except ValidationError as error:
            raise CommandError(_one_line(_describe(error)), returncode=UsageError.exit_code) from error
        except DatabaseError as error:
            missing = "no such table" in str(error) or "does not exist" in str(error)
            hint = "; run 'manage.py migrate'" if missing else ""
            raise CommandError(f"the database refused: {str(error).strip()}{hint}") from error
        except OSError as error:
            if tells_of_full_disk(error):
                of = f" of {error.filename}" if error.filename else ""
                raise CommandError(f"the disk{of} is full, or a quota is reached: free some space") from error
            file = error.filename
            if not isinstance(file, str | Path) or not any(text and str(file).startswith(text) for text in texts):
                raise  # it is none of the arguments, and lies in none
            what = _one_line(f"{file}: {error.strerror}")
            raise CommandError(what, returncode=UsageError.exit_code) from error
        except KeyboardInterrupt:
            raise CommandError("interrupted", returncode=130) from None
        finally:
            self.report.close()

    def result(self, document: Mapping[str, Any], *tables: Table, lines: Sequence[str] = ()) -> None:
        """The one result: the document with ``--json``, the tables and lines for people otherwise."""
        self.report.close()
        if self.as_json:
            self.stdout.write(json.dumps(document, indent=2, default=str, ensure_ascii=False))
            return
        console = Console(file=cast("IO[str]", self.stdout._out), soft_wrap=True)  # noqa: SLF001  Django's
        for table in tables:
            console.print(table)
        for line in lines:
            console.print(line, markup=False, highlight=False)


class ActionsCommand(RatchetCommand):
    """Each of its subcommands is a method with the same name behind ``_``, which gets the options of its kind."""

    actions: ClassVar[Mapping[str, str]]
    """Subcommand to what it does, in words."""

    def add_options(self, parser: CommandParser) -> None:
        subcommands = parser.add_subparsers(dest="action", required=True)
        for name, text in self.actions.items():
            subcommand = subcommands.add_parser(name, help=text, allow_abbrev=False)
            add_arguments(subcommand, _kind_of(getattr(self, f"_{name}")) or NoOptions)
            subcommand.add_argument("--json", action="store_true", default=SUPPRESS)  # where people write options

    def act(self, arguments: Mapping[str, Any]) -> None:
        method = getattr(self, f"_{read_options(Subcommand, arguments).action}")
        kind = _kind_of(method)
        method(*([read_options(kind, arguments)] if kind else []))


def _kind_of(method: Callable[..., None]) -> type[Any] | None:
    """The kind of options that it takes, as its signature says; None: it takes none."""
    return get_type_hints(method).get("options")


def _one_line(text: str) -> str:
    """What others wrote may be in it: it neither begins a line nor tells the terminal anything."""
    line = "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in text)
    return line if len(line) <= _LONGEST else f"{line[:_LONGEST]} …"


def _describe(error: ValidationError) -> str:
    if not hasattr(error, "error_dict"):
        return "; ".join(error.messages)
    return "; ".join(f"{field}: {' '.join(messages)}" for field, messages in error.message_dict.items())


def two_columns(title: str, rows: Mapping[str, Any]) -> Table:
    table = Table(title=title, show_header=False, title_justify="left")
    for name, value in rows.items():
        table.add_row(name, f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value))
    return table


MOST_NAMED = 10
"""Agents that a refusal lists."""


@dataclass(frozen=True, slots=True)
class Need:
    """What an agent must have, so that a command can be about it."""

    things: str
    model: type[Model] | None = None
    """Whose rows name their agent; None: every agent will do."""


RATINGS, ANSWERS, VERSIONS = Need("ratings", Feedback), Need("answers", Trace), Need("versions", ModelVersion)
NOTHING = Need("")


def choose_agent(name: str | None, need: Need, report: Report) -> Agent:
    """The named one whatever it has. Without a name the only one with what is needed, which the log says. Raises UsageError
    for a name that is not known, and where none or several fit."""
    if name:
        return Agent.by_name(name)
    agents = Agent.objects.order_by("name")
    if need.model:
        agents = agents.filter(Exists(need.model._default_manager.filter(agent=OuterRef("pk"))))
    fitting = list(agents[: MOST_NAMED + 1])
    if len(fitting) == 1:
        report("log", {"text": f"agent: {fitting[0]}, the only one{f' with {need.things}' if need.things else ''}"})
        return fitting[0]
    if not fitting:
        raise UsageError(
            f"no agent has {need.things} yet" if need.things else "there is no agent yet: see 'agent create'"
        )
    names = ", ".join(map(str, fitting[:MOST_NAMED])) + (", …" if len(fitting) > MOST_NAMED else "")
    raise UsageError(f"--agent is missing: several have {need.things or 'a name'}: {names}")
