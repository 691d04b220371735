"""A gateway in a process of its own, in front of a double; one for all tests, with data made once."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import openai
import pytest
from django.db import connection

from tests.commands.site import MANAGE, Site
from tests.ports import reserve_port
from tests.serving.gateway.upstream_double import UpstreamDouble, upstream_double
from tests.waiting import until

PROGRAM = """
import json, sys
from django.core.management import call_command
from django.utils import timezone
from rl.models import Agent, ApiKey, Arm, Deployment, Experiment, LabelModel, ModelVersion
url, nobody = {url!r}, {nobody!r}
call_command("migrate", verbosity=0)

def version(agent, name):
    return ModelVersion.objects.create(agent=agent, name=name, base_model="tiny", feedback_count=1)

def deployed(agent, name, alias="", target="openai", url=url):
    row = None if name == "base" else version(agent, name)
    return Deployment.objects.create(
        agent=agent, version=row, target=target, url=url, model_name=f"{{agent.name}}-{{name}}", alias=alias
    )

chat = Agent.objects.create(name="support-chat", system_prompt="Be kind.", response_length=64)
for name, alias in (("v1", "previous"), ("v2", "champion"), ("v3", "")):
    deployed(chat, name, alias)
deployed(chat, "v4", target="none")
split = Agent.objects.create(name="split")
sides = [deployed(split, name) for name in ("base", "v1")]
deployed(Agent.objects.create(name="dead"), "v1", "champion", url=nobody)
Agent.objects.create(name="nowhere")
deployed(Agent.objects.create(name="llama", system_prompt="Be short."), "v1", "champion", target="ollama", url="")
judged = Agent.objects.create(name="judged")
several = [deployed(judged, name) for name in ("v1", "v2")]
Deployment.objects.filter(agent=judged).update(best_of=4)
figures = dict(labels=40, heldout_labels=20, heldout_accuracy=0.8, majority_share=0.5)
learned = LabelModel.objects.create(agent=judged, **figures)
learned.path.parent.mkdir(parents=True, exist_ok=True)
learned.path.touch()
for clients in ("python", "llama_index", "node", "codex"):  # what is rated there shapes what is answered there
    deployed(Agent.objects.create(name=f"in_{{clients}}"), "v1", "champion")
nobody_judges = Agent.objects.create(name="unjudged")
deployed(nobody_judges, "v1", "champion")
Deployment.objects.filter(agent=nobody_judges).update(best_of=3)
half = Agent.objects.create(name="half")
there, gone = deployed(half, "v1"), version(half, "v2")
tried = Agent.objects.create(name="tried")
once = deployed(tried, "v1").version
arms = {{}}
for agent, versions in ((split, [side.version for side in sides]), (half, [there.version, gone]), (tried, [once])):
    trial = Experiment.objects.create(agent=agent, name="trial", state="running", started_at=timezone.now())
    arms[agent.name] = {{
        (row.name if row else "base"): Arm.objects.create(experiment=trial, version=row, is_control=not at).pk
        for at, row in enumerate(versions)
    }}
trial = Experiment.objects.create(agent=judged, name="trial", state="running", started_at=timezone.now())
arms["judged"] = {{
    row.name: Arm.objects.create(experiment=trial, version=row, is_control=count == 1, best_of=count).pk
    for row, count in ((several[0].version, 1), (several[1].version, 4))
}}
keys = {{
    "all": ApiKey.create(name="all", kind="secret")[1],
    "split": ApiKey.create(name="split", kind="secret", agent=split)[1],
    "reader": ApiKey.create(name="reader", kind="secret", scopes=["read"])[1],
    "sender": ApiKey.create(name="sender", kind="secret", scopes=["ingest"])[1],
    "trainer": ApiKey.create(name="trainer", kind="secret", scopes=["train", "deploy"])[1],
    "page": ApiKey.create(name="page", kind="publishable", allowed_origins=["https://shop.example"])[1],
    "chatting page": ApiKey.create(
        name="chat", kind="publishable", agent=chat, allowed_origins=["https://shop.example"], scopes=["chat"]
    )[1],
    "page of the dead": ApiKey.create(
        name="dead", kind="publishable", agent=Agent.objects.get(name="dead"), scopes=["chat"],
        allowed_origins=["https://shop.example"],
    )[1],
    "asking server": ApiKey.create(name="asks", kind="secret", scopes=["chat"])[1],
}}
print(json.dumps({{"keys": keys, "arms": arms}}))
"""


@dataclass(frozen=True)
class Gateway:
    site: Site
    url: str
    keys: dict[str, str]
    arms: dict[str, dict[str, int]]
    process: subprocess.Popen[bytes]

    def client(self, key: str = "all") -> openai.OpenAI:
        return _client(f"{self.url}/v1", self.keys[key])

    def say(self, content: Any = "hello", model: str = "support-chat", **options: Any) -> Any:
        messages = [{"role": "user", "content": content}]
        return self.client().chat.completions.create(model=model, messages=messages, **options)

    def trace(self, trace_id: str) -> dict[str, Any]:
        """Its columns, as soon as the database has them."""
        (row,) = until(lambda: self.query("SELECT * FROM rl_trace WHERE id = ?", trace_id.replace("-", "")))
        return {name: _plain(value) for name, value in row.items()}

    def query(self, sql: str, *parameters: Any) -> list[dict[str, Any]]:
        cursor_names = [name for (name,) in self.site.query("SELECT name FROM pragma_table_info('rl_trace')")]
        rows = self.site.query(sql, *parameters)
        return [dict(zip(cursor_names, row, strict=False)) for row in rows]

    def counts(self, arm: int) -> tuple[int, int]:
        return self.site.query("SELECT requests, failures FROM rl_arm WHERE id = ?", arm)[0]

    @property
    def pending(self) -> list[Path]:
        return list((self.site.data / "gateway" / "pending").glob("*.json"))


@cache
def _client(url: str, key: str) -> openai.OpenAI:
    """Making one takes a tenth of a second."""
    return openai.OpenAI(base_url=url, api_key=key, max_retries=0)


@pytest.fixture(scope="session")
def upstream() -> Iterator[UpstreamDouble]:
    with upstream_double() as double:
        yield double


@pytest.fixture(scope="session")
def prepared(upstream: UpstreamDouble, tmp_path_factory, django_db_setup) -> tuple[Site, dict[str, Any]]:
    site = Site(tmp_path_factory.mktemp("gateway") / "data")
    site.data.mkdir()
    if connection.vendor == "sqlite":  # the tests' own, which has no row yet: migrating another takes seconds
        copy_database(Path(connection.settings_dict["NAME"]), site)
    return site, filled(site, upstream)


@pytest.fixture(scope="session")
def gateway(prepared: tuple[Site, dict[str, Any]], upstream: UpstreamDouble) -> Iterator[Gateway]:
    with serving(*prepared, upstream) as found:
        yield found


def filled(site: Site, upstream: UpstreamDouble) -> dict[str, Any]:
    """Its keys and arms, after the migrations that are missing."""
    program = PROGRAM.format(url=upstream.url, nobody=f"http://127.0.0.1:{reserve_port()}")
    done = subprocess.run(
        [sys.executable, str(MANAGE), "shell", "--no-imports", "-c", program],
        env=site.environment(),
        capture_output=True,
        text=True,
        check=True,
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def copy_database(path: Path, site: Site) -> None:
    source = sqlite3.connect(path)
    source.execute("VACUUM INTO ?", [str(site.data / "db.sqlite3")])
    source.close()


@contextmanager
def serving(site: Site, known: dict[str, Any], upstream: UpstreamDouble) -> Iterator[Gateway]:
    port = reserve_port()
    log = (site.data / "serve.log").open("a")
    process = subprocess.Popen(
        [sys.executable, str(MANAGE), "serve", "--port", str(port)],
        env=site.environment(
            GATEWAY_TIMEOUT="2",
            OLLAMA_URL=upstream.url,
            EMBEDDING_MODELS=f"lengths={upstream.url}",
            MAX_REQUEST_BYTES="100000",
        ),
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
        start_new_session=True,
    )
    url = f"http://127.0.0.1:{port}"
    try:
        until(lambda: _answers(f"{url}/healthz"))
        yield Gateway(site, url, known["keys"], known["arms"], process)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        log.close()


def _answers(url: str) -> bool:
    try:
        return urllib.request.urlopen(url, timeout=2).status == 200
    except OSError:
        return False


def _plain(value: Any) -> Any:
    if isinstance(value, str) and value.startswith(("{", "[")):
        return json.loads(value)
    return value
