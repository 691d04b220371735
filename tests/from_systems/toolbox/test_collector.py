"""ToolBoxV2's calls of its collector, as its documents write them."""

import asyncio
import hashlib
import json
import threading
from pathlib import Path
from typing import Any

import pytest

from rl import collect
from rl.base.errors import UsageError
from rl.collect.capture.trace_files import read
from rl.from_systems.toolbox import ExecutionTrace, ReasoningStep, ToolCallTrace, TraceCollector, hook_into_agent
from rl.from_systems.toolbox.records import trace_of, trace_record
from tests.collect.importers.test_trace_file import TRACE


@pytest.fixture
def collector(tmp_path: Path) -> TraceCollector:
    return TraceCollector(tmp_path / "rl_traces")


def record(collector: TraceCollector, query: str = "Fix it", answer: str = "Fixed.") -> ExecutionTrace:
    collector.start_trace("session-1", query)
    collector.record_tool_call("shell", {"cmd": "ls"}, "a b", True, 12.5)
    collector.record_tool_call("fetch", {}, None, False, 3.0, "timed out")
    collector.record_reasoning_step("plan", "look first", 0.8, ["i"], ["x"])
    collector.record_task({"id": "t1", "type": "ToolTask", "description": "ls"}, "created")
    collector.record_task({"id": "t1", "type": "ToolTask", "description": "ls", "result": "ok"}, "completed")
    return collector.finish_trace(answer, 100, 20, 0.01, 1234.5, 2)


def test_the_session_comes_first(collector: TraceCollector):
    started = collector.start_trace("session-1", "Fix it")
    assert started is not None
    assert (started.session_id, started.user_query) == ("session-1", "Fix it")
    with pytest.raises(TypeError, match="positional"):
        collect.TraceCollector(collector.storage_path).start_trace("session-1", "Fix it")  # type: ignore[misc]


def test_all_that_was_recorded_is_in_the_trace_and_in_its_file(collector: TraceCollector):
    trace = record(collector)
    assert (trace.total_tokens_in, trace.total_tokens_out, trace.total_cost) == (100, 20, 0.01)
    assert (trace.execution_duration_ms, trace.llm_calls_count, trace.final_response) == (1234.5, 2, "Fixed.")
    assert trace.tool_calls[1] == ToolCallTrace(
        "fetch", {}, None, False, 3.0, "timed out", trace.tool_calls[1].timestamp
    )
    assert (trace.reasoning_steps[0].confidence, trace.reasoning_steps[0].insights) == (0.8, ["i"])
    assert trace.tasks_completed[0]["result"] == "ok"
    (file,) = collector.storage_path.glob("*/*.json")
    assert file.parent.name == trace.timestamp[:10]
    assert json.loads(file.read_text())["llm_calls_count"] == 2
    assert read(file).session_id == "session-1"
    assert collector.traces == [trace]
    assert collector.current_trace is None


def test_what_goes_on_can_be_looked_at(collector: TraceCollector):
    collector.start_trace("s", "q")
    collector.record_tool_call("shell", {}, "", True, 1.0)
    current = collector.current_trace
    assert current is not None
    assert [call.tool_name for call in current.tool_calls] == ["shell"]


def test_a_thread_of_the_agent_records_into_the_run_that_was_started(collector: TraceCollector):
    collector.start_trace("s", "q")
    thread = threading.Thread(target=collector.record_tool_call, args=("shell", {}, "", True, 1.0))
    thread.start()
    thread.join()
    assert len(collector.finish_trace("a").tool_calls) == 1


def test_without_a_trace_recording_is_ignored_and_finishing_an_error(collector: TraceCollector):
    collector.record_tool_call("shell", {}, "", True, 1.0)
    collector.record_reasoning_step("plan", "x")
    collector.record_task({"id": "t"}, "created")
    with pytest.raises(ValueError, match="start_trace"):
        collector.finish_trace("a")


def test_files_are_loaded_labelled_and_counted(collector: TraceCollector):
    first, second = record(collector), record(collector, "Again", "Done.")
    collector.start_trace("s", "Hello")
    third = collector.finish_trace("Hi.")
    collector.label_trace(first.trace_id, True, "fine")
    collector.label_trace(second.trace_id, False)
    assert {trace.trace_id for trace in collector.load_traces(labeled_only=True)} == {first.trace_id, second.trace_id}
    assert {trace.trace_id for trace in collector.load_traces(min_tool_calls=2)} == {first.trace_id, second.trace_id}
    day = first.timestamp[:10]
    assert len(collector.load_traces(day, day)) == 3
    assert collector.load_traces(end_date="2020-01-01") == []
    assert [trace.trace_id for trace in collector.get_unlabeled_traces(limit=10)] == [third.trace_id]
    assert collector.get_statistics() == {
        "total": 3,
        "labeled": 2,
        "unlabeled": 1,
        "positive_labels": 1,
        "negative_labels": 1,
        "avg_tool_calls": pytest.approx(4 / 3),
        "avg_reasoning_steps": pytest.approx(2 / 3),
        "avg_cost": pytest.approx(0.02 / 3),
    }
    with pytest.raises(ValueError, match="there is no trace"):
        collector.label_trace("nothing", True)


def test_an_empty_folder_has_the_total_alone(collector: TraceCollector):
    assert collector.get_statistics() == {"total": 0}


def test_the_usual_folder_is_in_the_home_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("HOME", str(tmp_path))
    assert TraceCollector().storage_path == tmp_path / ".toolbox" / "rl_traces"


class FlowAgent:
    total_tokens_in = total_tokens_out = total_llm_calls = 0
    total_cost_accumulated = 0.0

    async def a_run(self, query: str, session_id: str = "default", **more: Any) -> str:
        found = await self.arun_function("search", query=query)
        if query == "crash":
            raise RuntimeError("boom")
        return f"Found {found}."

    async def arun_function(self, name: str, *args: Any, **kwargs: Any) -> str:
        return f"{name} {kwargs['query']}"


def test_a_hooked_agent_is_recorded(collector: TraceCollector):
    agent = FlowAgent()
    hook_into_agent(agent, collector)
    assert asyncio.run(agent.a_run("pumps", session_id="s1")) == "Found search pumps."
    with pytest.raises(RuntimeError, match="boom"):
        asyncio.run(agent.a_run("crash"))
    good, bad = collector.traces
    assert (good.user_query, good.session_id, good.final_response) == ("pumps", "s1", "Found search pumps.")
    assert [(call.tool_name, call.arguments) for call in good.tool_calls] == [("search", {"query": "pumps"})]
    assert bad.final_response.startswith("Error:")
    assert len(bad.tasks_failed) == 1
    assert vars(agent)["_trace_collector"] is collector
    assert collector.get_statistics()["total"] == 2


FULL = ExecutionTrace(
    trace_id="t1",
    user_query="q",
    tool_calls=[ToolCallTrace("shell", {"cmd": "ls"}, "a", True, 1.5), ToolCallTrace("x", {}, None, False, 1.0, "no")],
    reasoning_steps=[ReasoningStep("plan", "look", 0.5, ["i"], ["j"])],
    tasks_failed=[{"task_id": "t", "type": "", "description": "", "timestamp": "", "result": None, "error": "boom"}],
    final_response="a",
    total_tokens_in=3,
    total_cost=0.5,
    execution_duration_ms=2.0,
)


def test_every_field_has_a_default_and_the_id_is_made_of_session_query_and_time():
    trace = ExecutionTrace(session_id="s", user_query="q")
    assert trace.trace_id == hashlib.md5(b"s:q:").hexdigest()[:12]
    assert (trace.tool_calls, trace.label, trace.total_cost) == ([], None, 0.0)


def test_a_file_of_toolbox_comes_and_goes():
    trace = ExecutionTrace.from_dict(TRACE)
    assert (trace.tool_calls[0].tool_name, trace.tool_calls[1].error) == ("shell", "timed out")
    assert ExecutionTrace.from_dict(trace.to_dict()) == trace
    assert {name: value for name, value in trace.to_dict().items() if name != "tool_calls"} == {
        name: value for name, value in TRACE.items() if name != "tool_calls"
    }
    with pytest.raises(UsageError, match="a trace is a JSON object"):
        ExecutionTrace.from_dict([])  # type: ignore[arg-type]


def test_a_reward_of_ratchet_sees_what_the_trace_says_and_the_way_back_is_open():
    record = trace_record(FULL)
    assert (record.question, record.response, record.tokens_in, record.tokens_out) == ("q", "a", 3, None)
    assert [(call.success, call.error) for call in record.tool_calls] == [(True, ""), (False, "no")]
    assert [(event.status, event.error) for event in record.tasks] == [("failed", "boom")]
    assert trace_of(record) == FULL
