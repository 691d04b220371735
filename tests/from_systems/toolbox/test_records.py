from __future__ import annotations

import hashlib

import pytest

from rl.base.errors import UsageError
from rl.from_systems.toolbox import ExecutionTrace, ReasoningStep, ToolCallTrace
from rl.from_systems.toolbox.records import trace_of, trace_record
from tests.collect.importers.test_trace_file import TRACE

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
