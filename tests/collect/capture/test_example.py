"""The script of docs/capturing.md, and recorded traces in general, against the real API."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.core.management import call_command

from rl.collect import TraceCollector, hook_into_agent
from rl.collect.traces.records import trace_record
from rl.models import Agent, Trace

pytestmark = [pytest.mark.database, pytest.mark.process]


SCRIPT = Path(settings.BASE_DIR) / "docs/examples/hook_an_agent.py"


def run_script(url: str, key: str) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": os.environ["PATH"], "RATCHET_URL": url, "RATCHET_KEY": key}
    # -S: what the script needs is the checkout and the standard library.
    command = [sys.executable, "-S", str(SCRIPT)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)


@pytest.mark.django_db(transaction=True)
def test_the_script_delivers_scored_traces_that_methods_can_train_on(
    live_server, capsys: pytest.CaptureFixture[str], tmp_path: Path
):
    call_command("api_key", "create", "--name", "parcel helper", "--agent", "parcel-helper", "--make-agent")
    agent, key = Agent.objects.get(), capsys.readouterr().out.split()[0]
    result = run_script(f"{live_server.url}/", key)
    assert result.returncode == 0, result.stdout + result.stderr
    assert f"12 of 12 runs are in Ratchet: {live_server.url}/traces/?agent=parcel-helper" in result.stdout

    traces = [trace_record(trace) for trace in Trace.objects.select_related("agent")]
    assert len(traces) == 12
    assert len({trace.prompt_key for trace in traces}) == 3
    calls = [call for trace in traces for call in trace.tool_calls]
    assert {call.tool_name for call in calls} == {"track_parcel", "shipping_cost"}
    failed = [call for call in calls if not call.success]
    assert 0 < len(failed) < 8
    assert {call.error for call in failed} == {"ConnectionError: the carrier does not answer"}
    assert all(trace.tokens_out == 12 and trace.llm_calls == 1 for trace in traces)
    assert all(trace.tokens_in is not None and trace.tokens_in > 40 for trace in traces)
    assert set(Trace.objects.values_list("session_id", flat=True)) == {f"customer-{n}" for n in range(4)}

    call_command("calculate_rewards", "--agent", agent.name)
    rewards = {bool([c for c in trace.tool_calls if not c["success"]]): trace.reward for trace in agent.traces.all()}
    assert rewards[True] < 0.6 <= rewards[False]
    for method in ("kto", "grpo"):
        output = tmp_path / f"{method}.jsonl"
        call_command(
            "export_training_data",
            "--agent-type",
            agent.name,
            "--format",
            method,
            "--output",
            str(output),
            "--split",
            "all",
        )
        assert output.read_text().count("\n") == (5 if method == "kto" else 2), output.read_text()


@pytest.mark.django_db(transaction=True)
def test_the_script_says_what_is_missing(live_server, secret_key: str):
    unknown = run_script(live_server.url, secret_key)
    assert unknown.returncode == 1
    assert "no agent is named 'parcel-helper'" in unknown.stderr
    assert "0 of 12 runs" in unknown.stdout
    assert "The warnings say why" in unknown.stderr
    wrong = run_script(live_server.url, "sk_wrong")
    assert "Ratchet does not take traces: this API key is unknown" in wrong.stderr
    assert "sk_wrong" not in wrong.stderr + wrong.stdout
    assert "Set RATCHET_KEY" in run_script(live_server.url, "").stderr


@pytest.mark.django_db(transaction=True)
def test_whatever_was_recorded_the_api_takes_it(live_server, secret_key: str, agent: Agent, collectors: Any):
    poison = "a\x00b\ud800c"
    collector: TraceCollector = collectors(api_url=live_server.url, api_key=secret_key, agent=agent.name)
    run = collector.start_trace(poison, session_id="s" * 500)
    collector.record_tool_call(poison, {poison: [poison, 10**30, float("nan"), object()]}, poison * 5000, error=poison)
    collector.record_reasoning_step(poison, poison, float("inf"), [poison], [poison])
    collector.record_task("failed", poison, poison, poison, error=poison)
    collector.record_llm_call(10**12, -5, -0.5)
    collector.finish_trace("answer " * 50_000)
    hook_into_agent(lambda query: None, collector).agent("silent")  # neither answer nor tool call: refused
    collector.start_trace("only tools")
    collector.record_tool_call("t")
    collector.finish_trace("")
    assert collector.flush(20)
    assert (collector.counts["sent"], collector.counts["refused"]) == (2, 1)
    assert run is not None
    trace = trace_record(Trace.objects.get(external_id=run.trace_id))
    assert (trace.tokens_in, trace.tokens_out, trace.cost, trace.llm_calls) == (2**31 - 1, None, None, 1)
    assert trace.tasks[0].status == "failed"
    assert trace.reasoning_steps[0].insights == ("a\ufffdb\ufffdc",)


@pytest.mark.django_db(transaction=True)
def test_the_same_traces_sent_by_two_processes_are_stored_once(
    live_server, secret_key: str, agent: Agent, collectors: Any, tmp_path: Path
):
    settings = {"api_url": live_server.url, "api_key": secret_key, "agent": agent.name}
    for _ in range(2):
        collector = collectors(**settings)
        collector.start_trace("q", trace_id="the-same")
        collector.finish_trace("a")
        assert collector.flush(20)
        assert collector.counts["sent"] == 1
    assert Trace.objects.get().external_id == "the-same"


@pytest.mark.django_db(transaction=True)
def test_a_server_that_wants_less_gets_it_later(
    live_server, secret_key: str, agent: Agent, collectors: Any, settings: Any, monkeypatch: pytest.MonkeyPatch
):
    """The real 413 of a body that is too large: it is sent in halves."""
    settings.DATA_UPLOAD_MAX_MEMORY_SIZE = 30_000
    collector = collectors(api_url=live_server.url, api_key=secret_key, agent=agent.name)
    for number in range(20):
        collector.start_trace(f"q{number}")
        collector.finish_trace("a" * (50_000 if number == 7 else 4_000))
    assert collector.flush(30)
    assert (collector.counts["sent"], collector.counts["refused"]) == (19, 1)
    assert Trace.objects.count() == 19


@pytest.mark.django_db(transaction=True)
def test_files_can_be_imported_beside_what_was_sent(
    live_server, secret_key: str, agent: Agent, collectors: Any, tmp_path: Path
):
    collector = collectors(data_dir=tmp_path, api_url=live_server.url, api_key=secret_key, agent=agent.name)
    for number in range(3):
        collector.start_trace(f"q{number}")
        collector.record_tool_call("track", {"parcel": number}, "Bonn")
        collector.record_task("created", "t1")
        collector.record_task("completed", "t1", result="found")
        collector.record_llm_call(12, 5, 0.25)
        collector.finish_trace("a")
    assert collector.flush(20)
    before = sorted(Trace.objects.values_list("external_id", "tool_calls", "tasks", "tokens_in", "prompt_key"))
    call_command("import_traces", "--format", "trace_file", "--agent", agent.name, str(tmp_path / "rl_traces"))
    assert len(before) == 3
    assert sorted(Trace.objects.values_list("external_id", "tool_calls", "tasks", "tokens_in", "prompt_key")) == before
