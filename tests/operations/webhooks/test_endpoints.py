from pathlib import Path

import pytest
from django.core.checks import run_checks

from rl.base.errors import BadFile, UsageError
from rl.operations.webhooks.endpoints import EVENTS, endpoints
from tests.operations.webhooks.receiver import SECRET

URL = "https://hooks.example/ratchet"


def read(tmp_path: Path, settings, text: str):
    file = tmp_path / "webhooks.yaml"
    file.write_text(text)
    settings.WEBHOOKS_FILE = str(file)
    return endpoints()


def test_without_a_file_there_are_none(settings):
    settings.WEBHOOKS_FILE = ""
    assert endpoints() == {}


def test_an_endpoint_is_told_of_everything_unless_it_says_of_what(tmp_path, settings):
    few = f"few:\n  url: {URL}\n  secret: {SECRET}\n  events: [run.finished]\n  agents: [a, b]\n"
    found = read(tmp_path, settings, f"all:\n  url: {URL}\n  secret: {SECRET}\n{few}")
    assert all(found["all"].wants(event, "anyone") for event in EVENTS)
    assert found["few"].wants("run.finished", "a")
    assert not found["few"].wants("run.finished", "c")
    assert not found["few"].wants("version.judged", "a")


@pytest.mark.parametrize(
    ("lines", "problem"),
    [
        ("url: http://hooks.example/", "line 2.*https://hooks.example.com/ratchet"),
        ("url: ftp://hooks.example/", "line 2"),
        ("url: https://user:pass@hooks.example/", "line 2.*no user name"),
        ("url: https://hooks.example/#part", "line 2"),
        ("url: 'https://hooks.example/a b'", "line 2"),
        ("url: 'https://hooks.example:99999/'", "line 2"),
        ("url: 'https:///nowhere'", "line 2"),
        ("url: 7", "line 2.*must be a text"),
        (f"url: {URL}\n  secrets: x", "line 3.*unknown key 'o.secrets'.*did you mean"),
        (f"url: {URL}", "line 1.*either secret or secret_env"),
        (f"url: {URL}\n  secret: {SECRET}\n  secret_env: X", "either secret or secret_env"),
        (f"url: {URL}\n  secret: whsec_c2hvcnQ=", "24 to 64 bytes"),
        (f"url: {URL}\n  secret: not base64 at all", "24 to 64 bytes"),
        (f"url: {URL}\n  secret_env: whsec_abc=", "name of an environment variable"),
        (
            f"url: {URL}\n  secret: {SECRET}\n  events: [run.started]",
            "line 4.*unknown event 'run.started'.*; known: run.finished",
        ),
        (f"url: {URL}\n  secret: {SECRET}\n  events: run.finished", "line 4.*a list"),
        (f"url: {URL}\n  secret: {SECRET}\n  agents: []", "line 4.*a list"),
        (f"url: {URL}\n  secret: {SECRET}\n  allow_private: maybe", "line 4.*true or false"),
    ],
)
def test_a_wrong_file_is_refused_with_the_line(tmp_path, settings, lines: str, problem: str):
    with pytest.raises(BadFile, match=f"(?s){problem}"):
        read(tmp_path, settings, f"o:\n  {lines}\n")


def test_a_secret_may_come_from_the_environment(tmp_path, settings, monkeypatch):
    found = read(tmp_path, settings, f"o:\n  url: {URL}\n  secret_env: OPS_SECRET\n")["o"]
    with pytest.raises(UsageError, match="variable OPS_SECRET of webhook o is not whsec_"):
        found.key()
    monkeypatch.setenv("OPS_SECRET", SECRET)
    assert found.key() == b"s" * 32


@pytest.mark.process
def test_the_check_names_what_is_wrong(tmp_path, settings):
    with pytest.raises(BadFile):
        read(tmp_path, settings, "o: 1")
    assert [message.id for message in run_checks() if "WEBHOOKS_FILE" in message.msg] == ["rl.E005"]
    read(tmp_path, settings, f"o:\n  url: {URL}\n  secret_env: NOT_SET_HERE\n")
    assert [message.id for message in run_checks() if "WEBHOOKS_FILE" in message.msg] == ["rl.W004"]
