import json
from datetime import timedelta

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone

from rl.models import Agent, ApiKey

pytestmark = pytest.mark.django_db


def run(capsys, *arguments: str) -> str:
    call_command("api_key", *arguments)
    return capsys.readouterr().out


@pytest.mark.database
def test_a_secret_key_is_made_and_shown_once(capsys):
    printed = run(capsys, "create", "--name", "server")
    key = printed.split()[0]
    assert ApiKey.find(key) == ApiKey.objects.get(kind="secret", name="server")
    assert key not in run(capsys, "list")


def test_a_publishable_key_is_made_for_an_agent_and_its_pages(capsys, agent: Agent):
    origins = "https://shop.example, http://localhost:3000"
    options = ("--name", "shop", "--kind", "publishable", "--agent", "SUPPORT-chat", "--allowed-origins", origins)
    made = json.loads(run(capsys, "create", *options, "--json"))
    row = ApiKey.find(made["key"])
    assert row is not None
    assert (row.kind, row.agent) == ("publishable", agent)
    assert row.allowed_origins == made["allowed_origins"] == ["https://shop.example", "http://localhost:3000"]
    assert made["agent"] == agent.name


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--kind", "publishable"], "at least one origin"),
        (["--kind", "publishable", "--allowed-origins", "shop.example"], "not an origin"),
        (["--kind", "publishable", "--allowed-origins", "https://shop.example/path"], "not an origin"),
        (["--agent", "nobody"], "unknown agent 'nobody'.*--make-agent"),
        (["--agent", ""], "unknown agent ''"),
        (["--make-agent"], "--agent NAME"),
        (["--make-agent", "--agent", "no/name"], "name: "),
        (["--make-agent", "--agent", "new", "--kind", "publishable"], "at least one origin"),
        (["--allowed-origins", "https://shop.example"], "for publishable keys"),
        (["--scopes", "ingest,all"], "unknown scope 'all'; known: chat, ingest, read, train, deploy"),
        (["--scopes", "read,read"], "without repetitions"),
        (["--scopes", ""], "at least one scope"),
        (["--scopes", "read", "--kind", "publishable"], "may only rate"),
        (["--expires", "soon"], "90d"),
        (["--expires", "2027-02-31"], "90d"),
        (["--expires", "2020-01-01"], "in the past"),
        (["--expires", "0d"], "in the past"),
    ],
)
def test_a_key_that_could_not_work_is_not_made(options: list[str], says: str):
    with pytest.raises(CommandError, match=says) as refused:
        call_command("api_key", "create", "--name", "x", *options)
    assert refused.value.returncode == 2
    assert not ApiKey.objects.exists()
    assert not Agent.objects.exists()


def test_a_key_is_made_with_its_scopes_and_its_expiry(capsys):
    made = json.loads(run(capsys, "create", "--name", "ci", "--scopes", "read, train", "--expires", "90d", "--json"))
    row = ApiKey.find(made["key"])
    assert row is not None
    assert row.scopes == made["scopes"] == ["read", "train"]
    assert row.expires_at is not None
    assert timedelta(days=89) < row.expires_at - timezone.now() < timedelta(days=91)
    day = json.loads(run(capsys, "create", "--name", "ci", "--expires", "2107-01-31", "--json"))
    assert (day["scopes"], day["expires_at"]) == (["ingest", "read"], "2107-01-31 00:00:00+00:00")


@pytest.mark.database
def test_the_list_shows_scopes_expiry_and_last_use(capsys):
    row, key = ApiKey.create(name="ci", kind="secret", scopes=["train"], expires_at=timezone.now() + timedelta(days=9))
    ApiKey.objects.update(last_used_at=timezone.now())
    listed = run(capsys, "list")
    assert all(text in listed for text in ("train", "expires ", "used "))
    (shown,) = json.loads(run(capsys, "list", "--json"))["keys"]
    assert shown["scopes"] == ["train"]
    assert shown["expires_at"]
    assert shown["last_used_at"]


def test_the_agent_is_made_with_its_key_when_asked_for(capsys):
    made = json.loads(run(capsys, "create", "--name", "x", "--agent", "parcel-helper", "--make-agent", "--json"))
    key = ApiKey.find(made["key"])
    assert key is not None
    assert key.agent == Agent.objects.get(name="parcel-helper")
    assert (made["agent"], made["agent_made"]) == ("parcel-helper", True)


def test_an_agent_that_is_there_is_not_made_again(capsys, agent: Agent):
    printed = run(capsys, "create", "--name", "x", "--agent", agent.name.upper(), "--make-agent")
    assert "is new" not in printed
    assert ApiKey.objects.get().agent == Agent.objects.get() == agent


def test_keys_are_listed_without_their_secrets(capsys, agent: Agent):
    first, key = ApiKey.create(name="first", kind="secret", agent=agent)
    assert "first" in run(capsys, "list")
    listed = json.loads(run(capsys, "list", "--json"))["keys"]
    assert [(row["id"], row["start"], row["agent"]) for row in listed] == [(first.pk, key[:10], agent.name)]
    assert key not in json.dumps(listed)
    assert first.digest not in json.dumps(listed)


def test_the_list_for_people_shows_whole_origins_and_what_was_revoked(capsys, monkeypatch, agent: Agent):
    monkeypatch.setenv("COLUMNS", "80")
    origin = "https://feedback.shop.example:8443"
    row, _ = ApiKey.create(name="shop", kind="publishable", agent=agent, allowed_origins=[origin])
    row.revoke()
    listed = run(capsys, "list")
    assert all(text in listed for text in (origin, f"for {agent.name}", row.start, "revoked "))


def test_an_empty_list_says_so(capsys):
    assert "no keys" in run(capsys, "list")
    assert json.loads(run(capsys, "--json", "list")) == {"keys": []}


def test_a_revoked_key_is_refused_from_then_on(capsys):
    row, key = ApiKey.create(name="lost", kind="secret")
    assert "refused" in run(capsys, "revoke", str(row.pk))
    assert ApiKey.find(key) is None
    assert json.loads(run(capsys, "revoke", str(row.pk), "--json"))["revoked_at"]


def test_a_key_that_is_not_there_cannot_be_revoked():
    with pytest.raises(CommandError, match="no key 7") as refused:
        call_command("api_key", "revoke", "7")
    assert refused.value.returncode == 2
