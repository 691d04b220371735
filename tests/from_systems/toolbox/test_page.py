"""Every command and every line of Python on the page about ToolBoxV2 runs, in their order."""

import ast
import asyncio
import inspect
import re
import shlex
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings as site
from django.core.management import call_command

from rl.from_systems.toolbox import TraceCollector, training_manager
from rl.models import Trace
from tests.export.ollama_double import OllamaDouble
from tests.from_systems.toolbox.checkpoints.make_version_2 import checkpoint, run, write_version_2

PAGE = (Path(site.BASE_DIR) / "docs/coming-from/toolboxv2.md").read_text()
BASE = "Qwen/Qwen2.5-1.5B-Instruct"


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


class FlowAgent:
    """Answers with one tool call, which fails every other time."""

    runs = 0

    async def a_run(self, query: str, session_id: str = "default") -> str:
        self.runs += 1
        found = await self.arun_function("search", query=query)
        return f"Answer {self.runs} after {found['ok']}."

    async def arun_function(self, name: str, **arguments: Any) -> dict[str, Any]:
        return {"ok": self.runs % 2 == 0}

    async def add_tool(self, function: Any, *, name: str, description: str) -> None:
        self.tools = [*getattr(self, "tools", []), name]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home folder with two checkpoints and some recorded runs, in which the page is followed."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / ".toolbox" / "Agents" / "checkpoint" / "isaa"
    write_version_2(
        tmp_path / "writer",
        checkpoint(folder / "agent_checkpoint_20260301_140500.pkl", *run("Sort", "sorted"), agent="isaa"),
        checkpoint(folder / "final_checkpoint.pkl", *run("Sort", "sorted"), *run("Find", "found"), agent="isaa"),
    )
    collector = TraceCollector()
    for number in range(6):
        for success in (True, False):
            collector.start_trace(f"s{number}", f"Question {number}?")
            collector.record_tool_call("shell", {}, "", success, 1.0)
            trace = collector.finish_trace(f"Thank you {number}." if success else f"Wait, {number}.")
            collector.label_trace(trace.trace_id, success)
    return tmp_path


@pytest.mark.process
@pytest.mark.django_db
def test_every_command_runs(home: Path):
    lines = [line for block in blocks("sh") for line in block.splitlines()]
    assert len(lines) == 6
    for line in lines:
        start, command, *arguments = shlex.split(line.replace("~", str(home)))[1:]
        assert start == "manage.py"
        call_command(command, *arguments, stdout=StringIO(), stderr=StringIO())
    assert Trace.objects.filter(agent__name="isaa").count() == 14
    assert len((home / "kto.jsonl").read_text().splitlines()) == 12


@pytest.mark.learn
@pytest.mark.slow
def test_every_line_of_python_runs(home: Path, tiny_base: Path, double: OllamaDouble, capsys: pytest.CaptureFixture):
    names: dict[str, Any] = {"agent": FlowAgent(), "input": lambda question: "y"}
    for block in blocks("python"):
        code = compile(block.replace(BASE, str(tiny_base)), "page", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        if inspect.iscoroutine(result := eval(code, names)):
            asyncio.run(result)
    training_manager.manager().wait()
    sessions = training_manager.manager().list_models()["models"]
    training_manager.manager.cache_clear()
    assert [(session["name"], session["state"]) for session in sessions] == [("assistant-v2", "completed")]
    assert len(names["agent"].tools) == 5
    out = capsys.readouterr().out
    assert "State: " in out
    assert "Collected 13 traces" in out
    assert "Model deployed: ollama run toolbox-isaa" in out
    assert set(double.models) == {"toolbox-agent:latest", "toolbox-isaa:latest"}
    assert (home / "kto_data.jsonl").exists()
    assert len(names["traces"]) == 2


def test_the_page_stays_short_and_has_both_ways():
    assert len(PAGE.splitlines()) < 190
    assert len(blocks("python")) == 7
