"""Real llama.cpp servers, in processes of their own, on a tiny model."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest
from django.conf import settings as django_settings

from rl.base.errors import ExportFailed, Interrupted, RunConflict
from rl.base.find_process import find_process
from rl.base.records import silent
from rl.export.gguf.export import convert
from rl.models import Agent, Artifact, Deployment, ModelVersion, TrainingRun
from rl.serving import llama_server
from rl.serving.deploy import deploy
from rl.serving.gateway.embeddings import write_vectors
from rl.serving.gateway.refusals import Refusal
from rl.serving.gateway.routing import Served
from rl.serving.gateway.upstream import call, new_client
from rl.serving.llama_server_process import is_stuck, spawn
from rl.serving.machine import memory_for_training
from rl.serving.upstreams import Upstream, server_key, upstream_of
from rl.serving.withdrawal import take_down
from rl.versions.versions import artifact_fields
from tests.export.tiny_models import FAMILIES, build_model
from tests.ports import reserve_port
from tests.waiting import stand_still, until

pytestmark = pytest.mark.learn


@pytest.fixture(scope="module")
def gguf_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("served")
    convert(build_model(folder / "model", *FAMILIES["llama"]()), folder / "tiny.gguf", "f16", "tiny", silent)
    return folder / "tiny.gguf"


@pytest.fixture(autouse=True)
def _nothing_is_left(data_dir: Path) -> Iterator[None]:
    yield
    for process in servers():
        process.kill()
        process.wait(60)


def servers() -> list[psutil.Process]:
    """Lists those of this test's DATA_DIR; one that was just begun has its command line only when it has become a program
    of its own."""
    folder = str(django_settings.DATA_DIR / "servers")
    found = psutil.process_iter(["cmdline", "status"])
    return [one for one in found if folder in (one.info["cmdline"] or []) and one.info["status"] != "zombie"]


@pytest.fixture
def make_version(agent: Agent, data_dir: Path, gguf_file: Path) -> Callable[[str], ModelVersion]:
    def make(name: str) -> ModelVersion:
        version = ModelVersion.objects.create(
            agent=agent, name=name, base_model="tiny", feedback_count=1, stage=ModelVersion.Stage.EXPORTED
        )
        folder = data_dir / "models" / agent.name / name
        folder.mkdir(parents=True)
        (folder / "tiny.gguf").hardlink_to(gguf_file)
        Artifact.objects.create(
            version=version, kind="gguf", quantization="q8_0", **artifact_fields(folder / "tiny.gguf")
        )
        return version

    return make


@pytest.fixture
def served(agent: Agent, make_version: Callable[[str], ModelVersion]) -> Deployment:
    return deploy(agent, make_version("v15"), target="llama_cpp")


def ask(deployment: Deployment, path: str, body: dict[str, Any] | None = None, key: str | None = None) -> Any:
    upstream = upstream_of(deployment)
    headers = dict(upstream.headers) if key is None else {"Authorization": f"Bearer {key}"}
    data = json.dumps(body).encode() if body else None
    request = urllib.request.Request(upstream.base_url + path, data, {"Content-Type": "application/json", **headers})
    with urllib.request.urlopen(request, timeout=60) as response:
        return json.load(response)


def die(deployment: Deployment) -> None:
    process = psutil.Process(deployment.pid)
    process.kill()
    process.wait(60)


def test_a_version_is_served_by_a_process_of_its_own(served: Deployment):
    answer = ask(served, "/chat/completions", {"messages": [{"role": "user", "content": "hello"}], "max_tokens": 3})
    assert answer["model"] == "support-chat:v15"
    assert answer["usage"]["completion_tokens"] == 3
    process = psutil.Process(served.pid)
    assert (served.host, served.pid_started) == (os.uname().nodename, process.create_time())
    assert os.getsid(process.pid) == process.pid != os.getsid(0)
    assert {name: type(served.settings[name]) for name in ("slots", "context", "threads")} == {
        "slots": int,
        "context": int,
        "threads": int,
    }
    assert (llama_server.is_alive(served), (llama_server.memory_bytes(served) or 0) > 1 << 20) == (True, True)
    assert served.version is not None
    served.version.refresh_from_db()
    assert served.version.stage == ModelVersion.Stage.DEPLOYED


def test_the_server_asks_for_a_key_that_no_process_list_shows(served: Deployment):
    with pytest.raises(urllib.error.HTTPError, match="401"):
        ask(served, "/models", key="wrong")
    process = psutil.Process(served.pid)
    seen = " ".join([*process.cmdline(), *process.environ(), *process.environ().values()])
    assert server_key(served) not in seen
    assert "SECRET_KEY" not in seen


def test_deploying_again_replaces_the_process_and_keeps_the_row(agent: Agent, served: Deployment):
    before = psutil.Process(served.pid)
    again = deploy(agent, served.version, target="llama_cpp", profile="ryzen")
    assert (again.pk, again.settings["slots"], again.settings["context"]) == (served.pk, 4, 4096)
    assert not before.is_running() or before.status() == "zombie"
    until(lambda: [process.pid for process in servers()] == [again.pid])


def test_a_name_that_goes_to_another_version_ends_the_old_server(
    agent: Agent, make_version: Callable[[str], ModelVersion]
):
    old = deploy(agent, make_version("v15"), target="llama_cpp", model_name="support")
    new = deploy(agent, make_version("v25"), target="llama_cpp", model_name="support")
    until(lambda: [process.pid for process in servers()] == [new.pid])
    assert list(Deployment.objects.all()) == [new]
    assert not llama_server.is_alive(old)


def test_taking_a_deployment_down_ends_the_process(served: Deployment):
    take_down(served)
    assert (servers(), Deployment.objects.count()) == ([], 0)


def test_a_server_ends_within_seconds_though_it_writes_an_answer(served: Deployment):
    upstream = upstream_of(served)
    body = json.dumps({"prompt": "pump", "max_tokens": 100_000, "ignore_eos": True, "stream": True}).encode()
    request = urllib.request.Request(f"{upstream.base_url}/completions", body, dict(upstream.headers))
    with urllib.request.urlopen(request, timeout=60) as response:
        assert response.readline().startswith(b"data: ")
        llama_server.stop(served)
    assert servers() == []


# --- what cannot be served ---------------------------------------------------------------------------------------------


def test_a_file_that_is_not_the_exported_one_is_not_served(
    agent: Agent, make_version: Callable[[str], ModelVersion], data_dir: Path
):
    version = make_version("v15")
    version.artifacts.update(sha256="0" * 64)
    with pytest.raises(ExportFailed, match="is not the file that was exported any more"):
        deploy(agent, version, target="llama_cpp")
    assert (servers(), Deployment.objects.count()) == ([], 0)


@pytest.mark.parametrize("damage", [lambda data: data[:3000], lambda data: data[:24] + b"\xff" * 4000])
def test_a_bad_file_is_one_error_and_the_version_in_use_goes_on(
    damage: Callable[[bytes], bytes], agent: Agent, served: Deployment, make_version: Callable[[str], ModelVersion]
):
    assert served.version is not None
    Deployment.promote(served.version)
    bad = make_version("v25")
    path = llama_server.model_path(served).parents[1] / "v25" / "tiny.gguf"
    data = damage(path.read_bytes())
    path.unlink()
    path.write_bytes(data)
    bad.artifacts.update(**artifact_fields(path))
    with pytest.raises(ExportFailed, match=r"llama.cpp (cannot serve|crashed on) tiny.gguf") as caught:
        deploy(agent, bad, target="llama_cpp")
    assert "\n" not in str(caught.value)
    assert list(Deployment.objects.values_list("version__name", "alias")) == [("v15", "champion")]
    until(lambda: [process.pid for process in servers()] == [served.pid])
    bad.refresh_from_db()
    assert bad.stage == ModelVersion.Stage.EXPORTED


def test_a_person_may_stop_the_start(agent: Agent, make_version: Callable[[str], ModelVersion]):
    def stop(event: str, values: dict[str, Any]) -> None:
        if event == "step":
            raise Interrupted("stopped by the test")

    with pytest.raises(Interrupted):
        deploy(agent, make_version("v15"), target="llama_cpp", report=stop)
    assert (servers(), Deployment.objects.count()) == ([], 0)


def test_a_server_that_does_not_come_up_is_given_up(
    agent: Agent, make_version: Callable[[str], ModelVersion], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(llama_server, "_BASE_SECONDS", -1.0)
    with pytest.raises(ExportFailed, match="did not answer within"):
        deploy(agent, make_version("v15"), target="llama_cpp")
    assert (servers(), Deployment.objects.count()) == ([], 0)


# --- supervision -------------------------------------------------------------------------------------------------------


def test_a_server_that_died_is_started_again_at_the_same_address(served: Deployment):
    die(served)
    assert not llama_server.is_alive(served)
    assert llama_server.supervise() == {"started": 1, "given_up": 0, "ended": 0}
    again = Deployment.objects.get()
    assert (again.url, again.settings["restarts"], again.pid != served.pid) == (served.url, 1, True)
    until(lambda: llama_server._answers(again.url))
    assert llama_server.supervise() == {"started": 0, "given_up": 0, "ended": 0}


def test_a_process_number_that_was_given_to_another_process_is_no_server(served: Deployment):
    die(served)
    Deployment.objects.update(pid=os.getpid())
    assert llama_server.supervise()["started"] == 1
    assert psutil.Process(os.getpid()).is_running()


def test_a_server_that_keeps_dying_is_given_up_with_its_reason(served: Deployment, data_dir: Path):
    (data_dir / served.path).unlink()
    for _ in range(llama_server.MAX_RESTARTS):
        row = Deployment.objects.get()
        if process := find_process(row.pid, row.pid_started):
            process.kill() if row.pid == served.pid else None
            process.wait(60)
        assert llama_server.supervise()["started"] == 1
    row = Deployment.objects.get()
    until(lambda: find_process(row.pid, row.pid_started) is None)
    assert llama_server.supervise() == {"started": 0, "given_up": 1, "ended": 0}
    row.refresh_from_db()
    assert (row.pid, row.url) == (None, "")
    assert row.settings["error"].startswith("given up after 3 restarts: ")
    assert "No such file" in row.settings["error"]
    assert llama_server.supervise() == {"started": 0, "given_up": 0, "ended": 0}


def test_a_server_that_runs_well_for_long_has_its_restarts_forgiven(
    served: Deployment, monkeypatch: pytest.MonkeyPatch
):
    served.settings["restarts"] = 2
    served.save()
    llama_server.supervise()
    served.refresh_from_db()
    assert served.settings["restarts"] == 2
    monkeypatch.setattr(llama_server, "STEADY_SECONDS", 0)
    llama_server.supervise()
    served.refresh_from_db()
    assert served.settings["restarts"] == 0


def test_a_server_that_was_stopped_stays_so(served: Deployment):
    llama_server.stop(served)
    assert llama_server.supervise() == {"started": 0, "given_up": 0, "ended": 0}


def test_a_process_that_no_row_names_is_ended(served: Deployment):
    stray = spawn(served)
    assert llama_server.supervise() == {"started": 0, "given_up": 0, "ended": 1}
    assert stray.process.wait(60) is not None
    until(lambda: [process.pid for process in servers()] == [served.pid])


def test_the_server_of_another_machine_is_left_alone(served: Deployment):
    die(served)
    Deployment.objects.update(host="elsewhere")
    assert llama_server.supervise()["started"] == 0
    row = Deployment.objects.get()
    assert llama_server.is_alive(row)
    with pytest.raises(RunConflict, match="runs on elsewhere; stop it there"):
        llama_server.stop(row)


def test_supervision_waits_for_nobody(served: Deployment):
    die(served)
    with llama_server._lock(lambda: None):
        assert llama_server.supervise() == {"started": 0, "given_up": 0, "ended": 0}
    assert llama_server.supervise()["started"] == 1


def test_the_log_of_a_server_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    from rl.serving import llama_server_child as child

    monkeypatch.setattr(child, "LOG_BYTES", 1000)
    path, saved = tmp_path / "1.log", os.dup(2)
    with path.open("ab") as log:
        os.dup2(log.fileno(), 2)
        try:
            for number in range(200):
                os.write(2, f"line {number}\n".encode())
            child._cut_log()
            os.write(2, b"the next line\n")
        finally:
            os.dup2(saved, 2)
            os.close(saved)
    lines = path.read_text().splitlines()
    assert path.stat().st_size < 600
    assert (lines[-2:], lines[0].startswith("line ")) == (["line 199", "the next line"], True)


def test_a_server_ends_at_once_when_it_is_told(served: Deployment):
    process = psutil.Process(served.pid)
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 0


def test_the_base_model_is_exported_and_served(agent: Agent, gguf_file: Path, data_dir: Path):
    agent.base_model = str(gguf_file.parent / "model")
    agent.export_quantization = "f16"
    row = deploy(agent, None, target="llama_cpp")
    answer = ask(row, "/chat/completions", {"messages": [{"role": "user", "content": "hello"}], "max_tokens": 2})
    assert (row.version_name, answer["model"]) == ("base", "support-chat:base")


@pytest.fixture
def run(agent: Agent) -> TrainingRun:
    run = TrainingRun.objects.create(agent=agent, method="dpo")
    run.claim()
    return run


def test_a_training_that_needs_the_memory_gets_it_and_gives_it_back(served: Deployment, run: TrainingRun, settings):
    settings.UNLOAD_WHILE_TRAINING = True
    address, told = served.url, []
    with memory_for_training(run, lambda event, values: told.append(values["text"])):
        assert servers() == []
        assert llama_server.supervise() == {"started": 0, "given_up": 0, "ended": 0}
    served.refresh_from_db()
    assert served.url == address
    until(lambda: [process.pid for process in servers()] == [served.pid])
    assert told == [
        f"taken out of memory while this run trains: {served.model_name}",
        f"loaded again: {served.model_name}",
    ]


def test_a_training_that_was_killed_keeps_no_model_from_its_users(served: Deployment, run: TrainingRun):
    llama_server.suspend(run)
    llama_server.supervise()
    assert servers() == []
    TrainingRun.objects.filter(pk=run.pk).update(state=TrainingRun.State.FAILED)
    llama_server.supervise()
    served.refresh_from_db()
    until(lambda: [process.pid for process in servers()] == [served.pid])
    assert "unloaded_for" not in served.settings


def test_without_the_setting_a_training_unloads_nothing(served: Deployment, run: TrainingRun):
    with memory_for_training(run, silent):
        until(lambda: [process.pid for process in servers()] == [served.pid])


HELLO: dict[str, Any] = {"messages": [{"role": "user", "content": "hello"}], "max_tokens": 2}
HOLDS_UP = {"type": "string", "pattern": "^" + "a?" * 3000 + "$"}
"""What the gateway lets nobody send."""


@pytest.fixture(autouse=True)
def _soon_sure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(llama_server, "_SURE_SECONDS", 1.0)


def test_a_server_that_works_is_left_alone(served: Deployment):
    assert not is_stuck(upstream_of(served), 20)
    assert not llama_server.revive(served.pk)
    until(lambda: [process.pid for process in servers()] == [served.pid])


def test_a_server_that_ended_or_starts_is_not_stuck(served: Deployment):
    process = psutil.Process(served.pid)
    process.kill()
    process.wait(60)
    assert not is_stuck(upstream_of(served), 20)
    assert not llama_server.revive(served.pk)


def test_a_server_that_stands_still_is_started_anew_at_the_same_address(served: Deployment):
    stand_still(psutil.Process(served.pid))
    assert is_stuck(upstream_of(served), 1)
    assert llama_server.revive(served.pk)
    again = Deployment.objects.get()
    assert (again.url, again.settings["restarts"], again.pid != served.pid) == (served.url, 0, True)
    until(lambda: llama_server._answers(again.url))
    assert ask(again, "/chat/completions", HELLO)["usage"]["completion_tokens"] == 2
    until(lambda: [process.pid for process in servers()] == [again.pid])


def test_a_grammar_that_never_ends_holds_a_server_up_until_it_is_started_anew(served: Deployment):
    schema = {"type": "json_schema", "json_schema": {"name": "a", "schema": HOLDS_UP}}
    body = json.dumps({**HELLO, "max_tokens": 50, "response_format": schema}).encode()
    send_and_leave(served, body)
    until(lambda: is_stuck(upstream_of(served), 1))
    assert llama_server.revive(served.pk)
    until(lambda: llama_server._answers(served.url))
    assert ask(Deployment.objects.get(), "/chat/completions", HELLO)["usage"]["completion_tokens"] == 2


def test_nothing_is_started_anew_while_somebody_else_starts_or_ends_servers(served: Deployment):
    stand_still(psutil.Process(served.pid))
    with llama_server._lock(lambda: None):
        assert not llama_server.revive(served.pk)
    until(lambda: llama_server.revive(served.pk))


def test_who_goes_away_frees_the_slot(served: Deployment):
    """A long answer ends soon after nobody listens: its process has nothing to do then."""
    body = {**HELLO, "max_tokens": 100_000, "ignore_eos": True, "logprobs": True, "top_logprobs": 400}
    process = psutil.Process(served.pid)
    before = sum(process.cpu_times()[:2])
    send_and_leave(served, json.dumps(body).encode())
    until(lambda: sum(process.cpu_times()[:2]) > before)

    def rests() -> bool:
        used = sum(process.cpu_times()[:2])
        time.sleep(0.5)
        return sum(process.cpu_times()[:2]) - used < 0.05

    until(rests)
    assert ask(served, "/chat/completions", HELLO)["usage"]["completion_tokens"] == 2


def send_and_leave(deployment: Deployment, body: bytes) -> None:
    """Nobody waits longer than half a second for the answer."""
    upstream = upstream_of(deployment)
    headers = {"Content-Type": "application/json", **upstream.headers}
    request = urllib.request.Request(f"{upstream.base_url}/chat/completions", body, headers)
    with suppress(TimeoutError, urllib.error.URLError):
        urllib.request.urlopen(request, timeout=0.5)


EMBEDDING = """
import sys, time, xllamacpp
parameters = xllamacpp.CommonParams()
parameters.model.path, parameters.port, parameters.hostnames = sys.argv[1], int(sys.argv[2]), ["127.0.0.1"]
parameters.embedding, parameters.n_gpu_layers, parameters.n_ctx = True, 0, 128
parameters.pooling_type = xllamacpp.llama_pooling_type.LLAMA_POOLING_TYPE_MEAN
parameters.cpuparams.n_threads = 1
server = xllamacpp.Server(parameters)
time.sleep(600)
"""


def test_what_llama_cpp_says_of_texts_becomes_their_vectors(gguf_file: Path):
    port = reserve_port()
    served = Served(None, "tiny", Upstream(f"http://127.0.0.1:{port}/v1", "tiny"))

    async def ask() -> dict[str, Any]:
        async with new_client() as client:
            return await call(client, served, f"{served.reached.base_url}/embeddings", {"input": ["Where?", "Here."]})

    def answered() -> dict[str, Any] | None:
        with suppress(Refusal):
            return asyncio.run(ask())
        return None

    with subprocess.Popen([sys.executable, "-c", EMBEDDING, str(gguf_file), str(port)]) as process:
        try:
            response = write_vectors("tiny", until(answered), 2, "float")
        finally:
            process.kill()
    document = json.loads(response.body)
    first, second = (row["embedding"] for row in document["data"])
    assert first != second
    assert len(first) == len(second) > 1
    assert document["usage"]["prompt_tokens"] > 1
