"""What every command promises: exit codes, one document on stdout, progress elsewhere."""

import io
import json

import pytest
from django.core.checks.registry import registry
from django.core.exceptions import ValidationError
from django.core.management import call_command, load_command_class
from django.core.management.base import CommandError, SystemCheckError
from django.db import OperationalError
from rich.table import Table

from rl.base.errors import BadFile, GateRejected, Interrupted, NotEnoughData, RatchetError, UsageError
from rl.management.base import CHECKS, RatchetCommand


def command(work) -> tuple[RatchetCommand, io.StringIO]:
    """A command that does ``work(command)``, and its standard output."""
    output = io.StringIO()
    made = type("Command", (RatchetCommand,), {"run": lambda self, options: work(self)})(stdout=output)
    return made, output


def handle(made: RatchetCommand, **options) -> None:
    made.handle(**{"json": False, "no_color": True, "verbosity": 1, **options})


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (RatchetError("x"), 1),
        (UsageError("x"), 2),
        (BadFile("f", "x"), 2),
        (ValidationError("x"), 2),
        (NotEnoughData("x"), 3),
        (GateRejected("x"), 4),
        (Interrupted("x"), 130),
        (KeyboardInterrupt(), 130),
        (OperationalError("no such table"), 1),
    ],
)
def test_each_error_has_its_exit_code(error, code):
    def fail(command):
        raise error

    with pytest.raises(CommandError) as caught:
        handle(command(fail)[0])
    assert caught.value.returncode == code


def test_a_bug_keeps_its_traceback():
    def fail(command):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        handle(command(fail)[0])


def test_with_json_only_the_document_is_printed():
    made, output = command(lambda self: self.result({"a": "ä"}, Table("t"), lines=["line"]))
    handle(made, json=True)
    assert json.loads(output.getvalue()) == {"a": "ä"}


def test_without_json_a_person_gets_tables_and_lines():
    made, output = command(lambda self: self.result({"a": 1}, Table("column"), lines=["[not markup]"]))
    handle(made)
    assert "column" in output.getvalue()
    assert "[not markup]\n" in output.getvalue()
    assert "{" not in output.getvalue()


def test_progress_goes_to_stderr_and_is_silent_at_verbosity_0(capsys):
    made, output = command(lambda self: self.report("stage", {"name": "thinking"}))
    handle(made)
    assert "thinking" in capsys.readouterr().err
    handle(made, verbosity=0)
    captured = capsys.readouterr()
    assert (captured.err, captured.out, output.getvalue()) == ("", "", "")


def test_a_refused_field_is_named():
    def fail(command):
        raise ValidationError({"name": ["This field cannot be blank."]})

    with pytest.raises(CommandError, match="name: This field cannot be blank."):
        handle(command(fail)[0])


@pytest.mark.parametrize(("message", "hint"), [("no such table: rl_agent", True), ("disk I/O error", False)])
def test_only_a_missing_table_is_answered_with_migrate(message, hint):
    def fail(command):
        raise OperationalError(message)

    with pytest.raises(CommandError) as caught:
        handle(command(fail)[0])
    assert ("manage.py migrate" in str(caught.value)) is hint


def test_a_command_runs_all_checks_but_those_of_pages():
    left_out = [check for check in registry.get_checks() if set(check.tags).isdisjoint(CHECKS)]
    of_pages = {name for name in left_out if {"admin", "templates", "urls"} & {*name.tags}}
    untagged = {f"{check.__module__}.{check.__name__}" for check in left_out if check not in of_pages}
    assert untagged == {"axes.checks.axes_conf_check", "django.contrib.auth.checks.check_middleware"}  # of our own file


@pytest.mark.parametrize(("name", "is_told"), [("serve", True), ("runs", False)])
def test_only_what_serves_pages_checks_them(name, is_told):
    tags = load_command_class("rl", name).requires_system_checks
    assert (tags == "__all__") is is_told


@pytest.mark.process
def test_a_wrong_setting_still_stops_a_command(settings):
    settings.CUSTOM_REWARDS = {"brief": "no.such.module.Reward"}
    with pytest.raises(SystemCheckError, match="rl.E004"):
        call_command("runs", "list", skip_checks=False)
