"""Recording by ToolBoxV2's calls. It is Ratchet's collector that records: by context, and without disturbing the agent."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from statistics import fmean
from typing import Any

from rl.base.errors import UsageError
from rl.collect import capture
from rl.collect.capture import execution_trace as trace_file
from rl.collect.capture.execution_trace import OpenTrace
from rl.from_systems.toolbox import places
from rl.from_systems.toolbox.records import ExecutionTrace, from_core


class TraceCollector:
    """``storage_path``: the folder of dated files, by default ``~/.toolbox/rl_traces``. Each file is there when
    ``finish_trace`` returns."""

    def __init__(self, storage_path: Path | str | None = None) -> None:
        self.storage_path = Path(storage_path) if storage_path else places.data_folder() / places.TRACES
        self.recorder = _Recorder(trace_dir=self.storage_path)
        self._open: OpenTrace | None = None

    @property
    def traces(self) -> list[ExecutionTrace]:
        """Those that were finished in this process."""
        return [from_core(trace) for trace in self.recorder.recorded]

    @property
    def current_trace(self) -> ExecutionTrace | None:
        """The run that goes on, as far as it got."""
        run = self._run()
        return from_core(run.so_far()) if run else None

    def start_trace(self, session_id: str, user_query: str) -> ExecutionTrace | None:
        """The session comes first, as in ToolBoxV2."""
        self._open = self.recorder.start_trace(user_query, session_id=session_id)
        return self.current_trace

    def record_tool_call(
        self, tool_name: str, arguments: Any, result: Any, success: bool, duration_ms: float, error: str | None = None
    ) -> None:
        if run := self._run():
            self.recorder.record_tool_call(tool_name, arguments, result, success, duration_ms, error, trace=run)

    def record_reasoning_step(
        self,
        step_type: str,
        content: str,
        confidence: float = 0.0,
        insights: list[str] | None = None,
        issues: list[str] | None = None,
    ) -> None:
        if run := self._run():
            self.recorder.record_reasoning_step(step_type, content, confidence, insights or (), issues or (), trace=run)

    def record_task(self, task_data: dict[str, Any], status: str) -> None:
        """``status``: created, completed or failed; of ``task_data`` id, type, description, and result or error are kept."""
        run = self._run()
        if run is None:
            return
        task_id = task_data.get("id") or task_data.get("task_id") or ""
        kind, description = (str(task_data.get(name) or "") for name in ("type", "description"))
        result, error = task_data.get("result"), task_data.get("error")
        self.recorder.record_task(status, task_id, kind, description, result, error, trace=run)

    def finish_trace(
        self,
        final_response: str,
        total_tokens_in: int = 0,
        total_tokens_out: int = 0,
        total_cost: float = 0.0,
        execution_duration_ms: float = 0.0,
        llm_calls_count: int = 0,
    ) -> ExecutionTrace:
        """A duration of 0 is the time since the start. Raises ValueError when no trace was started."""
        run = self._run()
        if run is None:
            raise ValueError("no trace was started: call start_trace(session_id, user_query) first")
        given = {
            "total_tokens_in": total_tokens_in,
            "total_tokens_out": total_tokens_out,
            "total_cost": total_cost,
            "execution_duration_ms": execution_duration_ms,
            "llm_calls_count": llm_calls_count,
        }
        figures = {name: figure for name, figure in given.items() if figure}
        finished = self.recorder.finish_trace(final_response, figures=figures, trace=run)
        self._open = None
        self.recorder.flush()
        if finished is None:
            raise ValueError("the trace could not be finished; the log says why")
        return from_core(finished)

    def load_traces(
        self,
        start_date: str | None = None,
        end_date: str | None = None,
        labeled_only: bool = False,
        min_tool_calls: int = 0,
    ) -> list[ExecutionTrace]:
        """Those of the files, newest first; dates are like 2026-01-31 and belong to the span."""
        return [
            from_core(trace)
            for trace in self.recorder.load_traces()
            if (start_date or "") <= trace.timestamp[:10] <= (end_date or "9999")
            and (trace.label is not None or not labeled_only)
            and len(trace.tool_calls) >= min_tool_calls
        ]

    def get_unlabeled_traces(self, limit: int = 100) -> list[ExecutionTrace]:
        """Newest first."""
        return [from_core(trace) for trace in self.recorder.get_unlabeled_traces(limit)]

    def label_trace(self, trace_id: str, label: bool, notes: str = "") -> None:
        """Raises ValueError for a trace that is not in the files."""
        try:
            self.recorder.label_trace(trace_id, label, notes)
        except UsageError as error:
            raise ValueError(str(error)) from None

    def get_statistics(self) -> dict[str, Any]:
        return count_traces(self.recorder.load_traces())

    def _run(self) -> OpenTrace | None:
        """The run of this context; in a thread that knows of none, the one that was started last."""
        run = self.recorder.current() or self._open
        return None if run is None or run.finished else run


def hook_into_agent(agent: Any, collector: TraceCollector) -> capture.Hook:
    """From now on each run of the agent is recorded, each with its own tokens and cost. ``unhook()`` of what is returned
    puts everything back."""
    hook = capture.hook_into_agent(agent, collector.recorder)
    agent._trace_collector = collector
    return hook


class _Recorder(capture.TraceCollector):
    """Remembers what it delivered."""

    def __init__(self, trace_dir: Path) -> None:
        super().__init__(trace_dir=trace_dir)
        self.recorded: list[trace_file.ExecutionTrace] = []

    def finish_trace(self, *arguments: Any, **named: Any) -> trace_file.ExecutionTrace | None:
        finished = super().finish_trace(*arguments, **named)
        self.recorded += [finished] if finished else []
        return finished


def count_traces(traces: Iterable[trace_file.ExecutionTrace]) -> dict[str, Any]:
    """Only ``total`` where there are none."""
    rows = [(trace.label, len(trace.tool_calls), len(trace.reasoning_steps), trace.total_cost) for trace in traces]
    if not rows:
        return {"total": 0}
    labels, calls, steps, costs = zip(*rows, strict=True)
    labeled = [label for label in labels if label is not None]
    return {
        "total": len(rows),
        "labeled": len(labeled),
        "unlabeled": len(rows) - len(labeled),
        "positive_labels": sum(labeled),
        "negative_labels": len(labeled) - sum(labeled),
        "avg_tool_calls": fmean(calls),
        "avg_reasoning_steps": fmean(steps),
        "avg_cost": fmean(costs),
    }
