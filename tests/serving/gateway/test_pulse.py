"""A gateway in front of a real llama.cpp process that stands still."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import openai
import psutil
import pytest
from django.db import connection

from tests.commands.site import MANAGE, Site, kill_servers
from tests.ports import reserve_port
from tests.serving.gateway.conftest import copy_database
from tests.serving.test_llama_server import gguf_file  # noqa: F401  fixture
from tests.waiting import stand_still, until

pytestmark = [pytest.mark.learn, pytest.mark.slow]
DEPLOY = """
import json
from pathlib import Path
from django.core.management import call_command
from django.conf import settings
from rl.models import Agent, ApiKey, Artifact, ModelVersion
from rl.serving.deploy import deploy
from rl.versions.versions import artifact_fields
call_command("migrate", verbosity=0)
agent = Agent.objects.create(name="chat", response_length=8)
version = ModelVersion.objects.create(agent=agent, name="v1", base_model="tiny", feedback_count=1, stage="exported")
path = settings.DATA_DIR / "models" / "chat" / "v1" / "tiny.gguf"
path.parent.mkdir(parents=True)
path.hardlink_to({gguf!r})
Artifact.objects.create(version=version, kind="gguf", quantization="q8_0", **artifact_fields(path))
deployment = deploy(agent, version, target="llama_cpp")
print(json.dumps([ApiKey.create(name="a", kind="secret")[1], deployment.pid]))
"""
SERVE = """
import sys
import django
import psutil
django.setup()
from django.core.management import call_command
from rl.serving import llama_server, llama_server_process
from rl.serving.gateway import turns
from rl.serving.llama_server_process import servers_folder

def stands_still():
    rows = [each.info for each in psutil.process_iter(["status", "cmdline"])]
    return any(row["status"] == psutil.STATUS_STOPPED and str(servers_folder()) in (row["cmdline"] or []) for row in rows)

def is_stuck(upstream, seconds=0):
    while found := llama_server_process.is_stuck(upstream, 1.0):
        if stands_still():
            break
    return found

llama_server.is_stuck = turns.is_stuck = is_stuck
turns.PULSE_SECONDS = 0.2
call_command("serve", port=int(sys.argv[1]))
"""
"""Sure after a second, but only of a process that was really stopped: one that a busy machine makes wait is asked again."""


@pytest.fixture
def chat(tmp_path: Path, gguf_file: Path, django_db_setup: None) -> Iterator[tuple[openai.OpenAI, int]]:  # noqa: F811
    """A client, and the number of the llama.cpp process."""
    site = Site(tmp_path / "data")
    site.data.mkdir()
    if connection.vendor == "sqlite":
        copy_database(Path(connection.settings_dict["NAME"]), site)
    command = [sys.executable, str(MANAGE), "shell", "--no-imports", "-c", DEPLOY.format(gguf=str(gguf_file))]
    done = subprocess.run(command, env=site.environment(), capture_output=True, text=True, check=True)
    key, pid = json.loads(done.stdout.splitlines()[-1])
    port = reserve_port()
    command = [sys.executable, "-c", SERVE, str(port)]
    with (site.data / "serve.log").open("w") as log:
        process = subprocess.Popen(
            command, env=site.environment(), cwd=MANAGE.parent, stdout=log, stderr=log, start_new_session=True
        )
    url = f"http://127.0.0.1:{port}"
    try:
        until(lambda: _answers(f"{url}/healthz"), 60)
        yield openai.OpenAI(base_url=f"{url}/v1", api_key=key, max_retries=0), pid
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        kill_servers(site)


def _answers(url: str) -> bool:
    try:
        return httpx.get(url, timeout=2).status_code == 200
    except httpx.HTTPError:
        return False


def say(client: openai.OpenAI) -> Any:
    return client.chat.completions.create(model="chat", messages=[{"role": "user", "content": "hello"}], max_tokens=4)


def say_unless_it_starts(client: openai.OpenAI) -> Any:
    try:
        return say(client)
    except openai.InternalServerError as error:
        if error.status_code != 503:
            raise
        return None


def test_a_model_that_stands_still_answers_again_without_anybodys_help(chat: tuple[openai.OpenAI, int]):
    client, pid = chat
    assert say(client).usage.completion_tokens == 4
    stand_still(psutil.Process(pid))
    with pytest.raises(openai.InternalServerError, match="is being started; ask again") as caught:
        say(client)
    assert (caught.value.status_code, caught.value.code) == (503, "model_not_ready")
    assert caught.value.response.headers["retry-after"] == "5"
    assert until(lambda: say_unless_it_starts(client), 60).usage.completion_tokens == 4
    assert not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
