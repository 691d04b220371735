"""What ``manage.py`` brings along before a command begins."""

import gc
import json
import subprocess
import sys
from argparse import ArgumentParser, _SubParsersAction
from collections.abc import Iterator

import pytest
from django.conf import settings
from django.contrib.admin import site
from django.core.checks import run_checks
from django.core.management import CommandError, call_command, get_commands

from backend.admin_config import check_pages
from backend.command_line import CommandLine

pytestmark = pytest.mark.process


LOOK = """
import gc, json, os, sys
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "backend.settings")
from backend.command_line import CommandLine
try:
    CommandLine(["manage.py", "train_dpo", "--help"]).execute()
except SystemExit as end:
    code = end.code
from django.contrib.admin import site
from django.core.checks import run_checks
before = {name for name in ("rl.admin", "rl.web.urls", "psycopg", "httpx", "torch") if name in sys.modules}
with_pages = run_checks(tags=["admin"])
known = [code, gc.isenabled(), gc.get_freeze_count() > 0, sorted(before), len(with_pages), len(site._registry)]
print(json.dumps([os.environ["OMP_WAIT_POLICY"], *known]))
"""


def test_a_commands_help_imports_neither_pages_nor_what_only_some_commands_need():
    run = subprocess.run(
        [sys.executable, "-c", LOOK], cwd=settings.BASE_DIR, capture_output=True, text=True, timeout=1800, check=True
    )
    _, code, collects, frozen, imported, messages, pages = json.loads(run.stdout.splitlines()[-1])
    assert (code, collects, frozen, imported, messages) == (0, True, True, [], 0)
    assert pages == len(site._registry)  # those that Django's check of the admin has looked at


@pytest.mark.parametrize("chosen", [None, "active"])
def test_threads_sleep_while_they_wait_unless_somebody_says_otherwise(chosen, monkeypatch):
    monkeypatch.delenv("OMP_WAIT_POLICY", raising=False)
    if chosen:
        monkeypatch.setenv("OMP_WAIT_POLICY", chosen)
    run = subprocess.run(
        [sys.executable, "-c", LOOK], cwd=settings.BASE_DIR, capture_output=True, text=True, timeout=1800, check=True
    )
    assert json.loads(run.stdout.splitlines()[-1])[0] == (chosen or "passive")


def test_the_collector_is_on_again_before_a_command_does_anything():
    gc.disable()
    try:
        CommandLine(["manage.py"]).fetch_command("check")
        assert gc.isenabled()
    finally:
        gc.enable()


def parsers_of(parser: ArgumentParser) -> Iterator[ArgumentParser]:
    """The parser, and those of its subcommands."""
    yield parser
    for action in parser._actions:
        if isinstance(action, _SubParsersAction):
            yield from (below for parser in action.choices.values() for below in parsers_of(parser))


def test_no_command_takes_the_beginning_of_an_option_for_the_option():
    line = CommandLine(["manage.py"])
    parsers = {
        parser.prog: parser
        for name in sorted(get_commands())
        for parser in parsers_of(line.fetch_command(name).create_parser("manage.py", name))
    }
    assert len(parsers) > 80
    assert [prog for prog, parser in parsers.items() if parser.allow_abbrev] == []
    with pytest.raises(CommandError, match="unrecognized arguments: --model smollm2"):
        call_command("train_dpo", "--model", "smollm2")


def test_a_wrong_page_of_the_admin_is_told(monkeypatch):
    of_a_page = next(iter(site._registry.values()))
    monkeypatch.setattr(of_a_page, "list_display", ["no_such_field"])
    assert {message.id for message in check_pages(None)} == {"admin.E108"}
    assert "admin.E108" in {message.id for message in run_checks()}
