"""What the API was sent and what the file says are the same record."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from django.test import Client
from hypothesis import given, settings
from hypothesis import strategies as st

from rl.collect import ExecutionTrace, TraceCollector
from rl.collect.capture.sender import body, payload
from rl.collect.capture.trace_files import document
from rl.collect.importers.trace_file import trace
from rl.collect.ingest.importing import import_files
from rl.collect.traces.records import as_json_items
from rl.models import Agent, Trace
from tests.collect.capture.conftest import only
from tests.collect.importers.test_any_record import anything, texts


def recorded(collector: TraceCollector) -> ExecutionTrace:
    earlier = [{"role": "system", "content": "You answer for a parcel service."}]
    collector.start_trace("Where is it?", session_id="s1", earlier=earlier)
    collector.record_tool_call("track", {"parcel": 7}, ["Bonn"], duration_ms=3.5)
    collector.record_tool_call("track", success=False, error="lost", duration_ms=0.0)
    collector.record_reasoning_step("plan", "Ask.", confidence=0.5, insights=["slow"])
    collector.record_task("created", 1, "find", "Find it")
    collector.record_task("failed", 1, error="no answer")
    collector.record_task("created", 2, "find", "Find it again")
    collector.record_task("completed", 2, result="Bonn")
    collector.record_llm_call(3, 4, 0.25)
    collector.finish_trace("In Bonn.")
    return only(collector)


def test_importing_the_files_of_what_was_sent_changes_nothing(
    agent: Agent, secret_key: str, collector: TraceCollector, tmp_path: Path
):
    found = recorded(collector)
    client = Client(headers={"authorization": f"Bearer {secret_key}"})
    sent = json.dumps(payload(found, agent.name))
    assert client.post("/api/v1/traces/", sent, content_type="application/json").status_code == 201
    before = Trace.objects.values().get()
    report = import_files("trace_file", [tmp_path / "rl_traces"], agent=agent)
    assert {name: value for name, value in Trace.objects.values().get().items() if before[name] != value} == {}
    assert (report.traces.unchanged, report.traces.updated, report.traces.imported) == (1, 0, 0)


names = st.text("abc_", min_size=1, max_size=5)
calls = st.lists(st.tuples(names, anything, anything, st.booleans(), st.floats(0, 1e6), texts), max_size=3)
steps = st.lists(st.tuples(texts, texts, st.floats(0, 1), st.lists(texts, max_size=2)), max_size=2)
tasks = st.lists(st.tuples(st.sampled_from(["created", "completed", "failed"]), names, texts, texts), max_size=4)


@settings(max_examples=60)
@given(texts.filter(str.strip), calls, steps, tasks, st.integers(0, 9), st.floats(0, 9))
def test_a_trace_file_says_what_the_api_is_sent(collector: TraceCollector, query, calls, steps, tasks, tokens, cost):
    collector.start_trace(query)
    for name, arguments, result, success, duration, error in calls:
        collector.record_tool_call(name, arguments, result, success, duration, error)
    for kind, content, confidence, insights in steps:
        collector.record_reasoning_step(kind, content, confidence, insights)
    for status, name, description, result in tasks:
        collector.record_task(status, name, "", description, result, result)
    collector.record_llm_call(tokens, tokens, cost)
    found = collector.finish_trace("An answer.")
    assert found is not None
    sent = json.loads(body(found, "support-chat"))
    read = trace(json.loads(document(found.to_dict())), "")
    for name in ("tool_calls", "reasoning_steps", "tasks"):
        assert json.loads(json.dumps(as_json_items(getattr(read, name)))) == sent[name]
    for name in ("external_id", "session_id", "response", "tokens_in", "tokens_out", "llm_calls", "cost"):
        assert getattr(read, name) == sent[name]
    assert list(read.prompt) == sent["prompt"]


pytestmark = pytest.mark.process


ROOT = Path(__file__).resolve().parents[3]
BARE = """
import sys
sys.path.insert(0, sys.argv[1])
before = set(sys.modules)
from rl.collect import TraceCollector, hook_into_agent, ExecutionTrace
collector = TraceCollector(data_dir=sys.argv[2])
def agent(query):
    return query.upper()
hook_into_agent(agent, collector).agent("where is my parcel?")
assert collector.flush()
[trace] = collector.get_unlabeled_traces()
ours = {name.split(".")[0] for name in set(sys.modules) - before}
print(trace.final_response, sorted(ours - set(sys.stdlib_module_names)))
assert "django" not in sys.modules
"""


def test_a_bare_interpreter_can_record(tmp_path: Path):
    # -S: without site-packages, so whatever is not in the standard library would fail.
    command = [sys.executable, "-I", "-S", "-c", BARE, str(ROOT), str(tmp_path)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert result.returncode == 0, result.stderr
    assert result.stdout.strip() == "WHERE IS MY PARCEL? ['rl']"
