"""An agent that a model elsewhere answers for; the server here lists two models to who has its key."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from rl.models import Agent, Deployment
from rl.serving.promotion import in_use
from rl.serving.upstreams import upstream_of

pytestmark = [pytest.mark.process, pytest.mark.django_db]
KEY = "sk-of-the-shop"


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        has_key = self.headers["Authorization"] == f"Bearer {KEY}"
        status = 200 if self.path == "/v1/models" and has_key else 401 if self.path == "/v1/models" else 404
        body = json.dumps({"object": "list", "data": [{"id": "large-1"}, {"id": "large-2"}]}).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture
def url() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture(autouse=True)
def key(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOPS_KEY", KEY)


def create(*arguments: str) -> Any:
    out = StringIO()
    call_command("agent", "create", "shop", "--model", "tiny", "--json", *arguments, stdout=out)
    return json.loads(out.getvalue())


def hosted(url: str, name: str = "large-1", variable: str = "SHOPS_KEY") -> tuple[str, ...]:
    return "--from", f"{url}/v1", "--model-name", name, "--api-key-env", variable


@pytest.mark.learn
def test_what_is_there_answers_and_a_person_decides_about_versions(url: str):
    document = create(*hosted(url))
    assert (document["answered_by"], document["url"], document["base_model"]) == ("large-1", url, "tiny")
    assert document["remark"] == ""
    agent = Agent.objects.get()
    assert agent.promoted_by == Agent.Decider.OPERATOR
    row = in_use(agent)
    upstream = upstream_of(row)
    assert (row.version, upstream.base_url, upstream.model) == (None, f"{url}/v1", "large-1")
    assert upstream.headers == {"Authorization": f"Bearer {KEY}"}


@pytest.mark.learn
def test_a_model_that_the_server_does_not_list_is_told(url: str):
    remark = "the server does not list larg-1 (did you mean large-1?); it lists: large-1, large-2"
    assert create(*hosted(url, "larg-1"))["remark"] == remark
    assert Deployment.objects.get().model_name == "larg-1"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"variable": "OTHER_KEY"}, "OTHER_KEY, which holds the server's API key, is not set"),
        ({"variable": ""}, "refuses requests without a key; name its variable: --api-key-env"),
        ({"name": ""}, "another server needs --url, and --model-name"),
        ({"variable": "sk-of the shop"}, "the name of an environment variable, not the key itself"),
    ],
)
def test_what_would_not_answer_is_refused_and_no_agent_is_made(url: str, change: dict[str, str], words: str):
    with pytest.raises(CommandError, match=words) as refusal:
        create(*hosted(url, **change))
    assert refusal.value.returncode == 2
    assert not Agent.objects.exists()


def test_a_key_that_is_wrong_is_not_said(url: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("SHOPS_KEY", "sk-wrong")
    with pytest.raises(CommandError, match="refuses the key in SHOPS_KEY") as refusal:
        create(*hosted(url))
    assert "sk-wrong" not in str(refusal.value)


def test_a_server_that_is_away_is_refused_and_later_nobody_asks():
    with pytest.raises(CommandError, match="cannot be reached .*; with --later nobody asks"):
        create(*hosted("http://127.0.0.1:9"))
    assert not Agent.objects.exists()
    create(*hosted("http://127.0.0.1:9"), "--later")
    assert Deployment.objects.get().url == "http://127.0.0.1:9"


def test_options_of_another_server_need_its_address():
    with pytest.raises(CommandError, match="belong to --from"):
        create("--model-name", "large-1")
