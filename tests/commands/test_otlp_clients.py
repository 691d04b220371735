"""Real clients of OpenTelemetry deliver to a running site. They live in ``.venv-otel``, which is made once."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from rl.models import Feedback, PendingSpan, Trace
from tests.commands.otel.model_server import ANSWER, model_server
from tests.conftest import missing

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = Path(__file__).parent / "otel"
PACKAGES = ROOT / "tests/requirements-otel.txt"
HOME = ROOT / ".venv-otel"
CALL = '<tool_call>{"name": "track", "arguments": {"number": "4711"}}</tool_call>'
# Installing the clients takes longer than all else.
pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True)]


@pytest.fixture(scope="session")
def client_python() -> Path:
    """The interpreter that sees the clients' packages, as they are pinned."""
    made_for = HOME / "packages.sha256"
    digest = hashlib.sha256(PACKAGES.read_bytes()).hexdigest()
    if not made_for.exists() or made_for.read_text() != digest:
        building = HOME.with_name(f"{HOME.name}-{os.getpid()}")
        _install(building)
        (building / made_for.name).write_text(digest)
        shutil.rmtree(HOME, ignore_errors=True)
        building.rename(HOME)
    return HOME / "bin/python"


def _install(home: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(home)], check=True)
    pip = [sys.executable, "-m", "pip", "--python", str(home / "bin/python"), "--disable-pip-version-check"]
    done = subprocess.run([*pip, "install", "-q", "-r", str(PACKAGES)], capture_output=True, text=True, check=False)
    if done.returncode:
        shutil.rmtree(home)
        missing(f"what tests/requirements-otel.txt names ({done.stderr.strip().splitlines()[-1]})")


@pytest.fixture
def run(client_python: Path, live_server, secret_key: str):
    def run(program: str, **more: str) -> str:
        with model_server() as models:
            environment = {
                "PATH": os.environ["PATH"],
                "OPENAI_BASE_URL": models,
                "OPENAI_API_KEY": "none",
                "OTEL_SERVICE_NAME": "support-chat",
                "OTEL_EXPORTER_OTLP_ENDPOINT": live_server.url,
                "OTEL_EXPORTER_OTLP_HEADERS": f"authorization=Bearer%20{secret_key}",
                "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT": "SPAN_ONLY",
                **more,
            }
            done = subprocess.run(
                [client_python, PROGRAMS / program],
                env=environment,
                capture_output=True,
                text=True,
                timeout=120,
                check=False,
            )
        assert done.returncode == 0, done.stderr
        return done.stderr

    return run


def roles(trace: Trace) -> list[str]:
    return [message["role"] for message in trace.prompt]


def test_the_openai_sdk(run):
    assert run("openai_sdk.py") == ""
    plain, asking, told, streamed = Trace.objects.order_by("occurred_at")
    assert [one.external_id for one in (plain, asking, told, streamed)] == [f"chatcmpl-{n}" for n in range(1, 5)]
    assert {one.agent.name for one in Trace.objects.all()} == {"support-chat"}
    assert plain.prompt == [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Good morning?"}]
    assert (plain.response, plain.tokens_in, plain.tokens_out) == (ANSWER, 12, 4)
    assert (asking.response, asking.details["otel"]["requested"][0]["id"]) == (CALL, "call_2")
    assert (roles(told), told.prompt[1]["content"]) == (["user", "assistant", "tool"], CALL)
    assert streamed.response == ANSWER
    judged = Feedback.objects.get()
    assert (judged.trace, judged.rater, judged.value) == (plain, "system:Politeness", 0.75)
    assert not PendingSpan.objects.exists()


def test_langchain_with_openinference(run):
    assert run("langchain_agent.py", OTEL_EXPORTER_OTLP_COMPRESSION="gzip") == ""
    asking, told = Trace.objects.order_by("occurred_at")
    assert (asking.response, roles(asking), asking.session_id) == (CALL, ["system", "user"], "talk-9")
    (call,) = asking.tool_calls
    assert (call["tool_name"], call["result"], call["success"]) == ("track", "4711 is in Bonn", True)
    assert call["call_id"] == asking.details["otel"]["requested"][0]["id"] != ""
    assert (told.response, roles(told)) == (ANSWER, ["system", "user", "assistant", "tool"])
    assert (told.prompt[3]["content"], told.tool_calls) == ("4711 is in Bonn", [])
    assert told.otel_trace_id == asking.otel_trace_id
