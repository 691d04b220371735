"""What the operator writes into SOURCES_FILE, and sees of it."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from rl import tasks
from rl.base.errors import BadFile, UsageError
from rl.checks import sources_can_be_asked
from rl.from_systems.sources.registered import FeedbackSource, find_source, sources
from tests.from_systems.sources.open_webui import OpenWebUI, thumb

GOOD = {"system": "openwebui", "url": "https://chat.example.org", "key_env": "KEY", "agent": "support-chat"}


@pytest.fixture
def written(tmp_path: Path, settings) -> Callable[..., None]:
    def write(**fields: object) -> None:
        settings.SOURCES_FILE = str(tmp_path / "sources.yaml")
        Path(settings.SOURCES_FILE).write_text(json.dumps({"chat": {**GOOD, **fields}}))  # is YAML

    return write


def test_without_a_file_nobody_is_asked(settings):
    settings.SOURCES_FILE = ""
    assert (sources(), tasks.fetch_sources()) == ({}, {})


def test_a_slash_at_the_end_of_the_address_does_not_matter(written):
    written(url="https://chat.example.org/")
    assert find_source("chat").url == "https://chat.example.org"
    with pytest.raises(UsageError, match="SOURCES_FILE"):
        find_source("talk")


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"system": "librechat"}, "openwebui"),
        ({"url": "chat.example.org"}, "https://"),
        ({"url": "https://ann:secret@chat.example.org"}, "user name"),
        ({"url": "file:///etc/passwd"}, "https://"),
        ({"key_env": "sk-secret"}, "not the key itself"),
        ({"agent": "../x"}, "agent"),
        ({"key": "sk-secret"}, "key"),
    ],
)
def test_what_is_wrong_in_the_file_is_said(written, wrong: dict[str, str], words: str):
    written(**wrong)
    with pytest.raises(BadFile, match=words):
        sources()
    assert [message.id for message in sources_can_be_asked()] == ["rl.E007"]


def test_a_missing_key_is_warned_of(written, monkeypatch):
    written()
    monkeypatch.delenv("KEY", raising=False)
    assert [message.id for message in sources_can_be_asked()] == ["rl.W007"]
    monkeypatch.setenv("KEY", "x")
    assert sources_can_be_asked() == []


@pytest.mark.process
@pytest.mark.django_db
def test_the_operator_sees_what_came_and_what_is_wrong(source: FeedbackSource, double: OpenWebUI, capsys):
    double.give(thumb(1), thumb(2, snapshot={}))
    call_command("sources", "fetch", "chat")
    assert "1 new from chat; refused so far: 1" in capsys.readouterr().out
    double.status = 403
    with pytest.raises(CommandError, match="administrator"):
        call_command("sources", "fetch", "chat")
    call_command("sources", "list", "--json")
    (entry,) = json.loads(capsys.readouterr().out)["sources"]
    assert (entry["name"], entry["stored"], entry["refused"], "administrator" in entry["error"]) == ("chat", 1, 1, True)
    double.status = 200
    call_command("sources", "fetch", "chat", "--again", "--json")
    assert json.loads(capsys.readouterr().out)["stored"] == 0
