"""From a trained version to two versions in front of users, their ratings, promotion and rollback: as people do it."""

from __future__ import annotations

import json
import socket
import time
import urllib.request
import uuid
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from openai import OpenAI

from tests.commands.site import Site, kill_session

ORIGIN = "https://shop.example"
USERS = [f"user-{number}" for number in range(24)]


@pytest.fixture(scope="module")
def trained(prepared_site: Site, tmp_path_factory: pytest.TempPathFactory) -> Site:
    """With a version that is in use, whatever its few steps have taught it."""
    site = prepared_site.copy(tmp_path_factory.mktemp("serving") / "data")
    site.run("train_dpo", "--agent", "support-chat", "--max-steps", "4")
    (name,) = site.query("SELECT name FROM rl_modelversion")[0]
    site.run("deploy_model", "--agent", "support-chat", "--version", name, "--target", "llama_cpp", "--promote")
    site.run("deploy_model", "--agent", "support-chat", "--version", "base", "--target", "llama_cpp")
    arms = f"base=50,{name}=50"
    site.run("experiment", "start", "--agent", "support-chat", "--name", "first", "--arms", arms, "--control", "base")
    return site


@pytest.fixture(scope="module")
def address(trained: Site) -> Iterator[str]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    process = trained.start("serve", "--port", str(port))
    url = f"http://127.0.0.1:{port}"
    for _ in range(200):
        try:
            urllib.request.urlopen(f"{url}/healthz", timeout=2)
            break
        except OSError:
            time.sleep(0.1)
    yield url
    kill_session(process)
    trained.run("deploy_model", "--agent", "support-chat", "--stop", "--version", "base")
    trained.run("deploy_model", "--agent", "support-chat", "--stop", "--version", version(trained))


def version(site: Site) -> str:
    return str(site.query("SELECT name FROM rl_modelversion")[0][0])


def rate(address: str, key: str, trace: str, value: int) -> int:
    """As the widget does, from a page of another origin."""
    body = {"trace": trace, "scale": "thumb", "value": value, "rater": str(uuid.uuid4())}
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json", "Origin": ORIGIN}
    request = urllib.request.Request(f"{address}/api/v1/feedback/", json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request, timeout=30) as answer:
        return int(answer.status)


@pytest.mark.slow
def test_two_versions_answer_users_and_are_rated_promoted_and_rolled_back(trained: Site, address: str):
    secret = trained.json("api_key", "create", "--name", "app", "--kind", "secret")["key"]
    page = ("--name", "page", "--kind", "publishable", "--allowed-origins", ORIGIN, "--agent", "support-chat")
    public = trained.json("api_key", "create", *page)["key"]
    client = OpenAI(base_url=f"{address}/v1", api_key=secret)
    answered: Counter[str] = Counter()
    for user in USERS:
        raw = client.chat.completions.with_raw_response.create(
            model="support-chat",
            messages=[{"role": "user", "content": "Where is my parcel?"}],
            user=user,
            max_tokens=8,
        )
        answered[raw.headers["x-ratchet-version"]] += 1
        good = raw.headers["x-ratchet-version"] != "base"
        assert rate(address, public, raw.parse().id, int(good)) == 201
    name = version(trained)
    assert set(answered) == {"base", name}
    assert min(answered.values()) >= 5
    rated = dict(
        trained.query(
            "SELECT COALESCE(v.name, 'base'), AVG(f.value) FROM rl_feedback f JOIN rl_trace t ON t.id = f.trace_id "
            "LEFT JOIN rl_modelversion v ON v.id = t.model_version_id WHERE t.source = 'gateway' GROUP BY 1"
        )
    )
    assert rated == {"base": 0.0, name: 1.0}
    status = trained.json("experiment", "status", "--agent", "support-chat", "--name", "first")
    assert {arm["version"]: arm["samples"] for arm in status["arms"]} == dict(answered)
    assert status["verdict"] == ""
    trained.run("deploy_model", "--agent", "support-chat", "--rollback")
    assert trained.query("SELECT alias FROM rl_deployment WHERE version_id IS NOT NULL") == [("previous",)]
    trained.run("deploy_model", "--agent", "support-chat", "--version", name, "--promote")
    assert trained.query("SELECT alias FROM rl_deployment WHERE version_id IS NOT NULL") == [("champion",)]


def test_what_is_in_front_of_users_is_listed(trained: Site, address: str):
    listed = trained.json("deploy_model", "--agent", "support-chat", "--list")
    assert {row["version"] for row in listed["served"] if row["alive"]} == {"base", version(trained)}
    key = trained.json("api_key", "create", "--name", "b", "--kind", "secret")["key"]
    assert "support-chat" in {model.id for model in OpenAI(base_url=f"{address}/v1", api_key=key).models.list()}


def test_the_files_that_are_served_lie_in_the_data_directory(trained: Site):
    paths = [Path(path) for (path,) in trained.query("SELECT path FROM rl_deployment WHERE target = 'llama_cpp'")]
    assert len(paths) == 2
    assert all((trained.data / path).is_file() for path in paths)
