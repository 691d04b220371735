"""What a command is given becomes a frozen dataclass at its door, and nobody reads argparse's dictionary behind it."""

import ast
from dataclasses import FrozenInstanceError, dataclass, fields, is_dataclass
from importlib import import_module
from pathlib import Path

import pytest
from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from rl.management.base import RatchetCommand
from rl.management.options import add_arguments, argument, option, read_options

RL = Path(settings.BASE_DIR) / "rl"
FILES = sorted({*RL.glob("management/**/*.py")} - {RL / "management/options.py"})
COMMANDS = sorted(file.stem for file in (RL / "management/commands").glob("[!_]*.py"))
DICTIONARIES = {"options", "arguments"}


@dataclass(frozen=True)
class Options:
    agent: str
    limit: int | None


def test_a_field_is_the_argument_of_its_name():
    options = read_options(Options, {"agent": "a", "limit": None, "verbosity": 1, "settings": None})
    assert options == Options("a", None)
    with pytest.raises(FrozenInstanceError):
        options.agent = "b"


def test_a_field_that_the_parser_lacks_is_a_mistake_in_the_command():
    with pytest.raises(TypeError, match="no argument of the command is called 'limit'"):
        read_options(Options, {"agent": "a"})


@dataclass(frozen=True, kw_only=True)
class Given:
    number: int = argument(type=int)
    loud: bool = argument("--loud", one_of="voice", action="store_true")
    quiet: bool = argument("--quiet", one_of="voice", action="store_true")
    form: str = argument("--form", default="a", also={"--b": {"action": "store_const", "const": "b"}})


@dataclass(frozen=True, kw_only=True)
class More(Given):
    extra: str = option(default="")
    fewest_rows: int | None = option("--rows")


def parse(kind: type[Given], *words: str, **how: bool) -> Given:
    parser = CommandParser(called_from_command_line=False)
    add_arguments(parser, kind, **how)
    return read_options(kind, vars(parser.parse_args(list(words))))


def test_a_field_declares_the_argument_that_fills_it():
    assert parse(Given, "3") == Given(number=3, loud=False, quiet=False, form="a")
    assert parse(More, "3", "--quiet", "--b", "--extra", "x") == More(
        number=3, loud=False, quiet=True, form="b", extra="x", fewest_rows=None
    )


@pytest.mark.parametrize("flag", ["--fewest-rows", "--rows"])
def test_an_option_has_its_flag_and_its_type_from_the_field(flag: str):
    assert parse(More, "3", flag, "5").fewest_rows == 5


@pytest.mark.parametrize("words", [("--loud", "--quiet"), ("--form", "c", "--b")])
def test_arguments_that_exclude_each_other_are_refused_together(words: tuple[str, str]):
    with pytest.raises(CommandError, match="not allowed with"):
        parse(Given, "3", *words)


def test_inherited_arguments_can_be_left_to_others():
    with pytest.raises(TypeError, match="no argument of the command is called 'number'"):
        parse(More, "--extra", "x", own=True)


def destinations(command: RatchetCommand) -> set[str]:
    """Names under which argparse gives what a command is given, without those that every Django command has."""
    parser = command.create_parser("manage.py", "x")
    actions = [*parser._actions]
    for action in parser._actions:
        for subparser in action.choices.values() if isinstance(action.choices, dict) else ():
            actions += subparser._actions
    common = {action.dest for action in BaseCommand().create_parser("manage.py", "x")._actions}
    return {action.dest for action in actions} - common - {"json"}


@pytest.mark.parametrize("name", COMMANDS)
def test_every_argument_of_a_command_is_a_field_of_its_options(name: str):
    module = import_module(f"rl.management.commands.{name}")
    if not issubclass(module.Command, RatchetCommand):
        pytest.skip("it is Django's or the queue's")
    kinds = [kind for kind in vars(module).values() if isinstance(kind, type) and is_dataclass(kind)]
    known = {field.name for kind in kinds for field in fields(kind)} | {"action"}
    assert sorted(destinations(module.Command()) - known) == []


def test_nobody_reads_a_dictionary_of_options():
    offences = [
        f"{file.relative_to(RL)}:{node.lineno}: {ast.unparse(node)}"
        for file in FILES
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, (ast.Subscript, ast.Attribute)) and is_lookup(node)
    ]
    assert offences == []


def is_lookup(node: ast.Subscript | ast.Attribute) -> bool:
    dictionary = isinstance(node.value, ast.Name) and node.value.id in DICTIONARIES
    return dictionary and (isinstance(node, ast.Subscript) or node.attr in {"get", "items", "keys", "values"})
