"""Versions that are adapters on the llama.cpp server of their base model, on a tiny one."""

import json
import math
import random
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Thread
from typing import Any

import httpx
import psutil
import pytest

from rl.base.errors import ExportFailed, UsageError
from rl.base.files import sha256_of
from rl.base.records import silent
from rl.export import release
from rl.models import Agent, Artifact, Deployment, ModelVersion
from rl.serving import llama_server, overview, promotion
from rl.serving.deploy import deploy
from rl.serving.gateway.table import load
from rl.serving.instructions import instruct
from rl.serving.llama_server_process import is_at_work
from rl.serving.model_file import find_export
from rl.serving.upstreams import Upstream, adapters_of, find_host, upstream_of
from rl.serving.withdrawal import take_down
from rl.versions.versions import version_directory
from tests.export.tiny_models import build_adapter
from tests.serving.test_llama_server import servers
from tests.waiting import until

pytestmark = [pytest.mark.learn, pytest.mark.django_db]
Make = Callable[[str], ModelVersion]
QUESTIONS = ("Where is my parcel?", "Where is my money?", "hello")
NOISE = 0.05
"""Natural logarithms by which a batch of another shape may change a score."""


@pytest.fixture(autouse=True)
def _nothing_is_left(data_dir: Path) -> Iterator[None]:
    yield
    for process in servers():
        process.kill()
        process.wait(60)


@pytest.fixture
def mail(agent: Agent, tiny_base: Path) -> Agent:
    Agent.objects.filter(pk=agent.pk).update(base_model=str(tiny_base), deploy_target="adapter")
    agent.refresh_from_db()
    return agent


@pytest.fixture
def make(mail: Agent, tiny_base: Path) -> Make:
    """A version whose adapter changes what the base model says, each in a way of its own."""

    def version(name: str) -> ModelVersion:
        made = ModelVersion.objects.create(
            agent=mail, name=name, base_model=str(tiny_base), feedback_count=1, stage=ModelVersion.Stage.EXPORTED
        )
        build_adapter(version_directory(made) / "adapter", tiny_base, seed=sum(name.encode()))
        return made

    return version


def score(row: Deployment, question: str, **fields: Any) -> dict[str, float]:
    return ask(upstream_of(row), question, **fields)


def ask(upstream: Upstream, question: str, **fields: Any) -> dict[str, float]:
    """The likeliest first tokens with their logarithms."""
    asked = {"messages": [{"role": "user", "content": question}], "max_tokens": 1, "temperature": 0}
    body = {**asked, "logprobs": True, "top_logprobs": 8, **upstream.fields, **fields}
    answer = httpx.post(
        f"{upstream.base_url}/chat/completions", json=body, headers=dict(upstream.headers), timeout=60
    ).raise_for_status()
    listed = answer.json()["choices"][0]["logprobs"]["content"][0]["top_logprobs"]
    return {entry["token"]: entry["logprob"] for entry in listed}


def distance(one: dict[str, float], other: dict[str, float]) -> float:
    best = max(other, key=lambda token: other[token])
    return abs(one.get(best, -math.inf) - other[best])


def rows_of(agent: Agent) -> list[Deployment]:
    return list(Deployment.objects.filter(agent=agent).select_related("agent", "version").order_by("pk"))


def test_one_process_answers_for_the_base_model_and_for_each_version_as_it_does_alone(mail: Agent, make: Make):
    for name in ("v1", "v2"):
        deploy(mail, make(name), target="adapter")
    assert [(row.version_name, row.target) for row in rows_of(mail)] == [
        ("base", "llama_cpp"),
        ("v1", "adapter"),
        ("v2", "adapter"),
    ]
    until(lambda: len(servers()) == 1)
    reached = [upstream_of(row) for row in rows_of(mail)]
    alone = [{text: ask(one, text, cache_prompt=False) for text in QUESTIONS} for one in reached]
    first = [scores[QUESTIONS[0]] for scores in alone]
    assert min(distance(one, other) for one in first for other in first if one is not other) > 4 * NOISE
    # nobody is answered from what was computed for another, one after the other and at once
    drawn = random.Random(1)
    asked = [(drawn.randrange(3), drawn.choice(QUESTIONS)) for _ in range(120)]
    given = [ask(reached[number], text) for number, text in asked]
    with ThreadPoolExecutor(4) as pool:
        at_once = list(pool.map(lambda one: ask(reached[one[0]], one[1]), asked))
    right = [alone[number][text] for number, text in asked]
    assert max(distance(*one) for one in zip(given, right, strict=True)) < NOISE
    assert max(distance(*one) for one in zip(at_once, right, strict=True)) < NOISE


def test_the_gateway_knows_which_adapter_is_meant_and_so_does_an_instruction_on_it(mail: Agent, make: Make):
    version = make("v1")
    row = deploy(mail, version, target="adapter")
    promotion.promote(mail, version)
    worded = instruct(mail, "Answer in one short sentence.")
    known = load().agents[mail.name]
    of_version, of_base = known.serving(version.pk), known.serving(None)
    assert of_version is not None
    assert of_base is not None
    assert of_version.reached.fields == {"lora": [{"id": 0, "scale": 1.0}]}
    assert of_base.reached.fields == {"lora": [{"id": 0, "scale": 0.0}]}
    assert of_version.reached.server == of_base.reached.server == find_host(mail).pk
    assert upstream_of(worded.deployments.get()) == upstream_of(row)
    entries = {entry["version"]: entry["alive"] for entry in overview.list_deployments(mail)}
    assert entries == {"base": True, "v1": True, worded.name: None}
    with pytest.raises(UsageError, match="only the gateway chooses: let applications use it"):
        overview.environment(mail)


def test_a_server_that_died_comes_back_with_its_adapters(mail: Agent, make: Make):
    row = deploy(mail, make("v1"), target="adapter")
    host = find_host(mail)
    process = psutil.Process(host.pid)
    process.kill()
    process.wait(60)
    assert llama_server.supervise()["started"] == 1
    again = find_host(mail)
    assert (adapters_of(again), again.pid != host.pid, again.url) == ([row.pk], True, host.url)
    until(lambda: _answers(again))
    score(row, "hello")


def _answers(row: Deployment) -> bool:
    try:
        score(row, "hello")
    except httpx.HTTPError:
        return False
    return True


def test_a_file_that_was_changed_is_left_out_and_the_others_go_on(mail: Agent, make: Make):
    first, second = (deploy(mail, make(name), target="adapter") for name in ("v1", "v2"))
    file = llama_server.model_path(first)
    file.write_bytes(file.read_bytes()[:-1] + b"x")
    llama_server.start(find_host(mail))
    assert adapters_of(find_host(mail)) == [second.pk]
    score(second, "hello")
    with pytest.raises(UsageError, match="does not have v1: its file is gone, or of another base"):
        upstream_of(first)


def test_what_llama_cpp_cannot_load_leaves_everything_as_it_was(mail: Agent, make: Make):
    row = deploy(mail, make("v1"), target="adapter")
    broken = make("v2")
    artifact = _export(broken)
    file = version_directory(broken) / "gguf" / Path(artifact.path).name
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    artifact.sha256 = sha256_of(file)
    artifact.save()
    host = find_host(mail)
    with pytest.raises(ExportFailed, match="failed to apply lora adapter.*file is corrupted or incomplete"):
        deploy(mail, broken, target="adapter")
    assert [one.version_name for one in rows_of(mail)] == ["base", "v1"]
    assert (find_host(mail).pid, adapters_of(find_host(mail))) == (host.pid, [row.pk])
    score(row, "hello")


def _export(version: ModelVersion) -> Artifact:
    return release.export_version(version, "gguf-lora", "q8_0", report=silent)


def test_without_the_base_model_s_server_nothing_answers_and_it_is_said_how_to_mend_that(mail: Agent, make: Make):
    said: list[Any] = []
    row = deploy(mail, make("v1"), target="adapter")
    take_down(find_host(mail), report=lambda kind, data: said.append(data))
    assert {"text": "nothing answers for support-chat:v1 until the base model is served again"} in said
    with pytest.raises(UsageError, match="deploy_model --agent support-chat --version base --target llama_cpp"):
        upstream_of(row)
    deploy(mail, None, target="adapter")
    assert (find_host(mail).target, adapters_of(find_host(mail))) == ("llama_cpp", [row.pk])
    score(row, "hello")


def test_a_version_of_another_base_model_is_no_adapter_of_this_one(mail: Agent, make: Make, tiny_model):
    deploy(mail, make("v1"), target="adapter")
    version = make("v2")
    Agent.objects.filter(pk=mail.pk).update(base_model=str(tiny_model("llama")))
    mail.refresh_from_db()
    version = ModelVersion.objects.get(pk=version.pk)
    with pytest.raises(UsageError, match="v2 was trained from .*: deploy it to llama_cpp"):
        deploy(mail, version, target="adapter")
    deploy(mail, None, target="adapter")
    assert adapters_of(find_host(mail)) == []


def test_what_is_retired_is_gone_at_the_next_start_with_its_file(mail: Agent, make: Make):
    Agent.objects.filter(pk=mail.pk).update(keep_versions=1)
    mail.refresh_from_db()
    first, second, third = (make(name) for name in ("v1", "v2", "v3"))
    deploy(mail, first, target="adapter")
    deploy(mail, second, target="adapter")
    assert find_export(first, "adapter", "q8_0") is None
    assert [one.version_name for one in rows_of(mail)] == ["base", "v2"]
    deploy(mail, third, target="adapter")
    assert [one.version_name for one in rows_of(mail)] == ["base", "v3"]
    llama_server.start(find_host(mail))
    assert adapters_of(find_host(mail)) == [rows_of(mail)[1].pk]


def test_a_plan_and_a_page_ask_for_the_file_that_the_target_takes(mail: Agent, make: Make):
    version = make("v1")
    assert overview.why_not(version) == "v1 has no adapter as a GGUF file yet"
    _export(version)
    assert overview.why_not(version) == ""
    destination = overview.destination_of(mail, version, target="", model_name="", url="", api_key_env="")
    planned = overview.plan(mail, version, destination, "", "auto")
    assert (planned["target"], planned["file"]) == ("adapter", "is exported already")
    assert json.dumps(planned)


def test_a_server_tells_whether_it_gives_an_answer(mail: Agent, make: Make):
    upstream = upstream_of(deploy(mail, make("v1"), target="adapter"))
    assert not is_at_work(upstream)
    long = {"max_tokens": 1500, "ignore_eos": True}
    asking = Thread(target=ask, args=(upstream, "hello"), kwargs=long)
    asking.start()
    until(lambda: is_at_work(upstream))
    asking.join()
    until(lambda: not is_at_work(upstream))
