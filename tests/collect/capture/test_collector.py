import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from rl.base.errors import UsageError
from rl.collect import ExecutionTrace, TraceCollector
from rl.collect.capture.sender import payload
from rl.collect.storable import unstorable
from tests.collect.capture.conftest import only, run_once, traces

FIELDS = (
    "trace_id session_id timestamp user_query tool_calls reasoning_steps tasks_created tasks_completed tasks_failed "
    "final_response total_tokens_in total_tokens_out total_cost execution_duration_ms llm_calls_count label reward_score "
    "manual_review review_notes"
)


def record_everything(collector: TraceCollector) -> ExecutionTrace | None:
    collector.start_trace("Where is my parcel?", session_id="s1")
    collector.record_tool_call("track", {"parcel": 7}, {"city": "Bonn"}, duration_ms=3.5)
    collector.record_tool_call("track", {"parcel": 8}, success=False, error="unknown parcel")
    collector.record_reasoning_step("internal", "ask the carrier", 0.9, ["it left"], ["no date"])
    collector.record_task("created", "t1", type="lookup", description="find it")
    collector.record_task("completed", "t1", type="lookup", result="found")
    collector.record_task("failed", "t2", error=ValueError("lost"))
    collector.record_llm_call(12, 5, 0.25)
    collector.record_llm_call(tokens_in=3)
    return collector.finish_trace("It is in Bonn.")


def test_a_file_has_exactly_the_fields_of_the_format(collector: TraceCollector, tmp_path: Path):
    trace = record_everything(collector)
    assert trace is not None
    assert collector.flush()
    path = tmp_path / "rl_traces" / trace.timestamp[:10] / f"{trace.trace_id}.json"
    stored = json.loads(path.read_text())
    assert list(stored) == FIELDS.split()
    assert list(stored["tool_calls"][0]) == [
        "tool_name",
        "arguments",
        "result",
        "success",
        "duration_ms",
        "error",
        "timestamp",
    ]
    assert set(stored["reasoning_steps"][0]) == {"step_type", "content", "confidence", "insights", "issues"}
    assert list(stored["tasks_completed"][0]) == ["task_id", "type", "description", "timestamp", "result"]
    assert list(stored["tasks_failed"][0]) == ["task_id", "type", "description", "timestamp", "error"]


def test_what_was_recorded_is_what_is_there(collector: TraceCollector):
    finished = record_everything(collector)
    trace = only(collector)
    assert trace == finished
    assert (trace.session_id, trace.user_query, trace.final_response) == ("s1", "Where is my parcel?", "It is in Bonn.")
    assert [(call.arguments, call.result, call.success, call.error) for call in trace.tool_calls] == [
        ({"parcel": 7}, {"city": "Bonn"}, True, ""),
        ({"parcel": 8}, None, False, "unknown parcel"),
    ]
    assert (trace.total_tokens_in, trace.total_tokens_out, trace.total_cost, trace.llm_calls_count) == (15, 5, 0.25, 2)
    assert trace.tasks_failed[0]["error"] == "ValueError: lost"
    assert trace.reasoning_steps[0].insights == ("it left",)
    assert trace.execution_duration_ms > 0
    assert (trace.label, trace.reward_score, trace.manual_review) == (None, None, False)


def test_a_trace_comes_back_from_its_dictionary(collector: TraceCollector):
    trace = record_everything(collector)
    assert trace is not None
    assert ExecutionTrace.from_dict(json.loads(json.dumps(trace.to_dict()))) == trace


def test_a_run_keeps_what_the_model_was_asked_before_the_question(collector: TraceCollector):
    earlier = [
        {"role": "system", "content": "You answer for a parcel service."},
        {"role": "user", "content": "Hello."},
        {"role": "assistant", "content": "Hello!", "id": 7},
    ]
    collector.start_trace("Where is my parcel?", earlier=earlier)
    finished = collector.finish_trace("In Bonn.")
    trace = only(collector)
    assert trace == finished
    assert [message["content"] for message in trace.earlier] == [message["content"] for message in earlier]
    assert [list(message) for message in trace.earlier] == [["role", "content"]] * 3
    assert payload(trace, "parcels")["prompt"][-2:] == [
        {"role": "assistant", "content": "Hello!"},
        {"role": "user", "content": "Where is my parcel?"},
    ]


@pytest.mark.parametrize("earlier", [3, [3], [{"role": "user"}], [{"role": "user", "content": 3}]])
def test_earlier_messages_that_are_none_are_refused(earlier: object):
    with pytest.raises(UsageError, match="earlier must be a list"):
        ExecutionTrace.from_dict({"trace_id": "a", "earlier": earlier})


@pytest.mark.parametrize(
    "stored", [[], {}, {"trace_id": "../x"}, {"trace_id": "a", "tool_calls": 3}, {"trace_id": "a", "tool_calls": [{}]}]
)
def test_what_is_no_trace_is_refused(stored: object):
    with pytest.raises(UsageError):
        ExecutionTrace.from_dict(stored)  # type: ignore[arg-type]


def test_long_values_are_cut(collector: TraceCollector):
    collector.start_trace("q")
    collector.record_tool_call("t", {"text": "a" * 9000}, "r" * 9000, error="e" * 9000)
    collector.record_tool_call("t", None, {"rows": ["r" * 90] * 90})
    collector.record_reasoning_step("s", "c" * 9000, insights=["i" * 9000])
    collector.record_task("failed", "t1", description="d" * 9000, error="e" * 9000)
    trace = collector.finish_trace("f" * 300_000)
    assert trace is not None
    first, second = trace.tool_calls
    assert (len(first.arguments["text"]), len(first.result), len(first.error)) == (2000, 2000, 500)
    assert isinstance(second.result, str)
    assert len(second.result) == 2000
    assert (len(trace.reasoning_steps[0].content), len(trace.reasoning_steps[0].insights[0])) == (1000, 1000)
    assert (len(trace.tasks_failed[0]["description"]), len(trace.tasks_failed[0]["error"])) == (500, 500)
    assert len(trace.final_response) == 100_000


def test_a_run_has_at_most_1000_events_of_a_kind(collector: TraceCollector, warnings):
    collector.start_trace("q")
    for _ in range(1100):
        collector.record_llm_call(1)
    trace = collector.finish_trace("a")
    assert trace is not None
    assert trace.llm_calls_count == 1000
    assert ["more than 1000 events" in text for text in warnings()] == [True]


def test_an_error_finishes_the_trace_as_a_failed_task(collector: TraceCollector):
    collector.start_trace("q")
    collector.finish_trace(error=ValueError("no such parcel"))
    trace = only(collector)
    assert trace.final_response == "Error: ValueError: no such parcel"
    [task] = trace.tasks_failed
    assert (task["task_id"], task["error"]) == ("run", "ValueError: no such parcel")


def test_what_belongs_to_no_run_is_left_out_and_said_once(collector: TraceCollector, warnings):
    collector.record_tool_call("t")
    collector.record_tool_call("t")
    collector.record_llm_call(1)
    run = collector.start_trace("q")
    collector.finish_trace("a")
    collector.record_tool_call("t", trace=run)
    assert collector.finish_trace("again") is None
    assert len(warnings()) == 3
    assert only(collector).tool_calls == []


def test_a_mistake_in_recording_does_not_reach_the_agent(collector: TraceCollector, warnings):
    class Nasty:
        def __repr__(self) -> str:
            raise RuntimeError("sk_secret")

        __str__ = __repr__

    collector.start_trace("q")
    collector.record_task("no such status", "t1")
    collector.record_task("created", Nasty())
    collector.record_llm_call("many")  # type: ignore[arg-type]
    collector.record_tool_call("t", Nasty(), Nasty(), error=Nasty())
    assert collector.start_trace("q", trace_id="../../etc/passwd") is None
    trace = collector.finish_trace("a")
    assert trace is not None
    assert "sk_secret" not in str(trace.to_dict())
    assert "sk_secret" not in str(warnings())


def test_ids_from_outside_are_slugs(collector: TraceCollector, warnings):
    run = collector.start_trace("q", trace_id="chat-4711")
    assert run is not None
    collector.finish_trace("a")
    assert only(collector).trace_id == "chat-4711"
    assert collector.start_trace("q", trace_id="../../x") is None
    assert "trace id '../../x' is not usable" in warnings()[0]
    with pytest.raises(UsageError):
        collector.label_trace("../../x", True)


def test_labels_and_statistics(collector: TraceCollector):
    record_everything(collector)
    second = run_once(collector)
    assert collector.flush()
    labelled = collector.label_trace(second, False, "too late")
    assert (labelled.label, labelled.manual_review, labelled.review_notes) == (False, True, "too late")
    assert second not in {trace.trace_id for trace in collector.get_unlabeled_traces()}
    assert collector.get_statistics() == {
        "total_traces": 2,
        "unique_sessions": 2,
        "labeled_traces": 1,
        "unlabeled_traces": 1,
        "traces_with_tool_calls": 2,
        "traces_with_reasoning": 1,
        "unique_tools_used": 1,
        "tools_list": ["track"],
        "avg_query_length": 19.0,
        "avg_response_length": 12.5,
        "total_tokens_in": 27,
        "total_tokens_out": 10,
        "total_cost": 0.5,
        "agents_discovered": [],
        "checkpoints_available": 0,
    }


def test_statistics_of_nothing(collector: TraceCollector):
    assert collector.get_statistics()["avg_query_length"] == 0.0
    with pytest.raises(UsageError, match="no trace 'abc'"):
        collector.label_trace("abc", True)


def test_a_file_that_is_no_trace_is_left_out_and_named(collector: TraceCollector, tmp_path: Path, warnings):
    run_once(collector)
    assert collector.flush()
    day = next((tmp_path / "rl_traces").iterdir())
    (day / "broken.json").write_text('{"trace_id": "broken", "tool')
    assert len(traces(collector)) == 1
    assert "broken.json" in warnings()[0]


@pytest.mark.parametrize(
    "changes", [{"total_cost": "much"}, {"user_query": 7}, {"tool_calls": [{"tool_name": None}]}, {"tasks_failed": [1]}]
)
def test_a_file_with_values_of_other_types_is_left_out_of_the_statistics(
    collector: TraceCollector, tmp_path: Path, changes: dict[str, object]
):
    run_once(collector)
    assert collector.flush()
    day = next((tmp_path / "rl_traces").iterdir())
    (day / "odd.json").write_text(json.dumps({"trace_id": "odd", **changes}))
    (day / "bare.json").write_text(json.dumps({"trace_id": "bare", "total_cost": None, "user_query": None}))
    assert collector.get_statistics()["total_traces"] == 2


def test_what_is_nearly_right_is_recorded_too(collector: TraceCollector):
    collector.start_trace("q")
    collector.record_tool_call("t", timestamp=datetime(2026, 1, 5, tzinfo=UTC))  # type: ignore[arg-type]
    collector.record_reasoning_step("plan", "x", insights="one", issues=None)  # type: ignore[arg-type]
    collector.record_reasoning_step("plan", "y", insights=["many"] * 100_000)
    collector.finish_trace("a")
    trace = only(collector)
    assert trace.tool_calls[0].timestamp == "2026-01-05 00:00:00+00:00"
    assert [(len(step.insights), step.issues) for step in trace.reasoning_steps] == [(1, ()), (500, ())]


def test_secrets_are_redacted_wherever_they_are(collectors, tmp_path: Path):
    def redact(name: str, value: object) -> object:
        if name in ("password", "card"):
            return "***"
        return value.replace("hunter2", "***") if isinstance(value, str) else value

    collector = collectors(data_dir=tmp_path, redact=redact)
    collector.start_trace("my password is hunter2", session_id="hunter2")
    collector.record_tool_call(
        "login", {"password": "x", "deep": [{"card": 4111}, "hunter2"], "hunter2": 1}, "a" * 1996 + "hunter2"
    )
    collector.record_tool_call("login", error=ValueError("hunter2"))
    collector.record_reasoning_step("hunter2", "hunter2", insights=["hunter2"], issues=["hunter2"])
    collector.record_task("failed", "hunter2", "hunter2", "hunter2", error="hunter2")
    collector.finish_trace("hunter2", error=RuntimeError("hunter2"))
    trace = only(collector)
    text = json.dumps(trace.to_dict())
    assert "hunt" not in text
    assert trace.tool_calls[0].arguments == {"password": "***", "deep": [{"card": "***"}, "***"], "***": 1}


def test_nothing_is_kept_of_what_redact_chokes_on(collectors, tmp_path: Path, warnings):
    def redact(name: str, value: object) -> object:
        raise KeyError(value)

    collector = collectors(data_dir=tmp_path, redact=redact)
    run_once(collector, "hunter2", "hunter2")
    text = json.dumps(only(collector).to_dict())
    assert "hunter2" not in text + str(warnings())
    assert "[not recorded: redact failed]" in text


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({}, "data_dir, api_url, or both"),
        ({"api_url": "http://x", "api_key": "sk_1"}, "agent="),
        ({"api_url": "http://x", "api_key": "sk_1", "agent": "../x"}, "agent name"),
        ({"api_url": "ftp://x", "api_key": "sk_1", "agent": "a"}, "https://ratchet.example"),
        ({"api_url": "file:///etc/passwd", "api_key": "sk_1", "agent": "a"}, "https://ratchet.example"),
        ({"api_url": "http://u:pw@x", "api_key": "sk_1", "agent": "a"}, "password"),
        ({"api_url": "http://x", "agent": "a"}, "key is missing"),
        ({"api_url": "http://x", "api_key": "sk_1\r\nX-Evil: 1", "agent": "a"}, "characters"),
    ],
)
def test_settings_that_cannot_work_are_refused_without_telling_the_key(settings: dict[str, str], words: str):
    with pytest.raises(UsageError, match=words) as caught:
        TraceCollector(**settings)  # type: ignore[arg-type]
    assert "sk_1" not in str(caught.value)
    assert "pw" not in str(caught.value)


def test_all_that_is_recorded_can_be_stored(collector: TraceCollector):
    poison = "a\x00b\ud800c"
    collector.start_trace(poison, session_id=poison)
    collector.record_tool_call(poison, {poison: [poison, 10**30, float("nan"), {1, 2}]}, poison, error=poison)
    collector.record_reasoning_step(poison, poison, float("nan"), [poison])
    collector.record_llm_call(10**30, float("inf"), float("inf"))  # type: ignore[arg-type]
    collector.record_task("failed", poison, poison, poison, error=poison)
    collector.finish_trace(poison)
    assert unstorable(json.loads(json.dumps(only(collector).to_dict()))) == ""
