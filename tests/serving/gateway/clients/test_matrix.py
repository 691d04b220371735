"""Real clients in front of the real gateway: docs/clients.md has what became of each of their calls."""

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.commands.environments import ROOT, environment_of
from tests.commands.otel.model_server import ANSWER, model_server
from tests.serving.gateway.clients import matrix
from tests.serving.gateway.conftest import Gateway
from tests.serving.gateway.node_clients import with_clients, with_packages

pytestmark = [pytest.mark.process, pytest.mark.slow]  # pip and npm install first
HERE = Path(__file__).parent
PYTHON = (
    "openai (Python)",
    "anthropic (Python)",
    "LangChain",
    "LangChain Anthropic",
    "Agents SDK of OpenAI",
    "pydantic-ai",
    "LiteLLM",
)
NODE = ("openai (Node)", "@anthropic-ai/sdk (Node)", "Vercel's SDK (`ai`)")


def in_python(folder: Path) -> list[str]:
    return [str(environment_of("clients")), str(HERE / "python_clients.py")]


def in_llama_index(folder: Path) -> list[str]:
    return [str(environment_of("llama-index")), str(HERE / "llama_index_clients.py")]


def in_node(folder: Path) -> list[str]:
    return ["node", with_clients(HERE / "node_clients.mjs", folder)]


def in_codex(folder: Path) -> list[str]:
    with_packages(folder, HERE.parent / "codex")
    return [sys.executable, str(HERE / "codex_client.py")]


TRACED = {
    "opentelemetry-instrumentation-genai-openai": ("openai_sdk.py", "Good morning?", "chatcmpl-1"),
    "openinference-instrumentation-openai": ("openinference_sdk.py", "Plain.", "chatcmpl-1"),
    "openinference-instrumentation-langchain": ("langchain_agent.py", "Where is 4711?", "chatcmpl-2"),
    "opentelemetry-instrumentation-openai": ("traceloop_sdk.py", "Good morning?", "chatcmpl-1"),
    "langfuse": ("langfuse_sdk.py", "Good morning?", "chatcmpl-1"),
}
"""Packages that trace a client of another server: the program, a question in it, and the id of the answer there."""

PROGRAMS: dict[Callable[[Path], list[str]], tuple[str, ...]] = {
    in_python: PYTHON,
    in_llama_index: ("LlamaIndex",),
    in_node: NODE,
    in_codex: ("Codex",),
}


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_the_page_has_what_became_of_each_call(program: Callable[[Path], list[str]], gateway: Gateway, tmp_path: Path):
    agent = program.__name__
    command = [*program(tmp_path), gateway.url, gateway.keys["all"], agent, str(matrix.PAGE)]
    calls = matrix.calls_of(run(command, {name: os.environ[name] for name in ("PATH", "HOME")}, tmp_path), agent)
    assert {call.client for call in calls} == set(PROGRAMS[program])
    matrix.check(PROGRAMS[program], matrix.walk(gateway, calls, tmp_path))


@pytest.mark.parametrize("package", TRACED)
def test_the_page_has_what_became_of_each_call_that_was_traced(package: str, gateway: Gateway, tmp_path: Path):
    program, question, answer_id = TRACED[package]
    made = gateway.site.json("api_key", "create", "--name", package, "--agent", package, "--make-agent")
    gateway.keys[package] = made["key"]
    with model_server() as models:
        environment = {
            "PATH": os.environ["PATH"],
            "OPENAI_BASE_URL": models,
            "OPENAI_API_KEY": "none",
            "OTEL_SERVICE_NAME": package,
            "OTEL_EXPORTER_OTLP_ENDPOINT": gateway.url,
            "OTEL_EXPORTER_OTLP_HEADERS": f"authorization=Bearer%20{made['key']}",
            "LANGFUSE_BASE_URL": gateway.url,
            "LANGFUSE_PUBLIC_KEY": package,
            "LANGFUSE_SECRET_KEY": made["key"],
            "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT": "SPAN_ONLY",
        }
        run([str(environment_of("otel")), str(ROOT / "tests/commands/otel" / program)], environment, tmp_path)
    pins = (ROOT / "tests/requirements-otel.txt").read_text()
    version = re.findall(rf"^{package}==(\S+)", pins, re.MULTILINE)[0]
    told = matrix.Call(package, version, "spans", package, "`id` of the model's answer", question, answer_id, ANSWER)
    matrix.check([package], matrix.walk(gateway, [told], tmp_path))


def run(command: list[str], environment: dict[str, str], folder: Path) -> str:
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=1800, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_page_names_no_other_client():
    assert {*map(matrix.client_of, matrix.table())} == {*TRACED}.union(*PROGRAMS.values())
