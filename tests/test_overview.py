"""What ``manage.py`` alone prints."""

from collections import Counter

import pytest
from django.core.management import get_commands, load_command_class

from backend import overview

LIKE_DJANGOS = {"collectstatic"}


def own_commands() -> set[str]:
    return {file.stem for file in overview.COMMANDS.glob("*.py")} - {"__init__"} - LIKE_DJANGOS


def test_every_command_of_ratchet_stands_in_one_group():
    assert Counter(overview.commands()) == Counter(own_commands())


@pytest.mark.parametrize("name", sorted(own_commands()))
def test_the_line_of_a_command_is_how_its_help_begins(name):
    text = load_command_class(get_commands()[name], name).help
    assert text.startswith(overview.describe(name).rstrip("."))


def test_ratchets_commands_come_before_djangos():
    lines = [line.split()[0] for line in overview.write_overview().splitlines() if line.startswith("  ")]
    assert lines == [*overview.commands(), *overview.DJANGO]
    assert set(overview.DJANGO) <= {*get_commands(), "test"}


def test_no_line_is_wider_than_the_terminal(monkeypatch):
    monkeypatch.setenv("COLUMNS", "72")
    lines = [line for line in overview.write_overview().splitlines() if line.startswith("  ")]
    assert max(map(len, lines)) <= 72
    assert any(line.endswith("…") for line in lines)
