"""One run of an agent under ToolBoxV2's names, the way to and from Ratchet's own records, and recording by ToolBoxV2's
calls. It is Ratchet's collector that records: by context, and without disturbing the agent."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from statistics import fmean
from typing import Any, Final, Literal

from rl.base import records as core
from rl.base.errors import UsageError
from rl.collect import capture
from rl.collect.capture import execution_trace as trace_file
from rl.collect.capture.execution_trace import OpenTrace
from rl.from_systems import toolbox
from rl.from_systems.toolbox.trace_file import unfold_tool_calls

STATUSES: Final[tuple[Literal["created", "completed", "failed"], ...]] = ("created", "completed", "failed")


@dataclass
class ToolCallTrace:
    tool_name: str
    arguments: Any
    result: Any
    success: bool
    duration_ms: float
    error: str | None = None
    timestamp: str = ""


@dataclass
class ReasoningStep:
    step_type: str
    content: str
    confidence: float = 0.0
    insights: list[str] = field(default_factory=list)
    issues: list[str] = field(default_factory=list)


@dataclass
class ExecutionTrace(trace_file.ExecutionTrace):
    trace_id: str = ""
    """Empty: the first 12 hexadecimal digits of an MD5 of session, query and time."""
    tool_calls: list[ToolCallTrace] = field(default_factory=list)  # type: ignore[assignment]
    reasoning_steps: list[ReasoningStep] = field(default_factory=list)  # type: ignore[assignment]

    def __post_init__(self) -> None:
        if not self.trace_id:
            text = f"{self.session_id}:{self.user_query}:{self.timestamp}"
            self.trace_id = hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()[:12]

    def to_dict(self) -> dict[str, Any]:
        return {name: value for name, value in asdict(self).items() if name != "earlier"}

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> ExecutionTrace:
        """Raises UsageError for what is not a trace."""
        unfolded = unfold_tool_calls(stored) if isinstance(stored, Mapping) else stored
        return from_core(trace_file.ExecutionTrace.from_dict(unfolded))


def from_core(trace: trace_file.ExecutionTrace) -> ExecutionTrace:
    values = _values(trace, ExecutionTrace)
    values["tool_calls"] = [_tool_call(call) for call in trace.tool_calls]
    values["reasoning_steps"] = [_step(step) for step in trace.reasoning_steps]
    return ExecutionTrace(**values)


def _values(record: Any, kind: type) -> dict[str, Any]:
    return {item.name: getattr(record, item.name) for item in fields(kind)}


def trace_record(trace: ExecutionTrace) -> core.TraceRecord:
    """What a reward may look at. A label is not among it: it is what a reward is compared with."""
    calls = [
        {**_values(call, ToolCallTrace), "success": bool(call.success), "error": call.error or ""}
        for call in trace.tool_calls
    ]
    steps = [
        {**_values(step, ReasoningStep), "insights": tuple(step.insights), "issues": tuple(step.issues)}
        for step in trace.reasoning_steps
    ]
    tasks = []
    for status in STATUSES:
        for task in getattr(trace, f"tasks_{status}"):
            task_id = task.get("task_id") or task.get("id") or ""
            texts = {name: str(task.get(name) or "") for name in ("type", "description", "timestamp", "error")}
            tasks.append(core.TaskEvent(str(task_id), status, result=task.get("result"), **texts))
    return core.TraceRecord(
        id=trace.trace_id,
        agent="",
        prompt=(core.Message(role="user", content=trace.user_query),),
        response=trace.final_response,
        tool_calls=tuple(core.ToolCall(**call) for call in calls),
        reasoning_steps=tuple(core.ReasoningStep(**step) for step in steps),
        tasks=tuple(tasks),
        tokens_in=trace.total_tokens_in or None,
        tokens_out=trace.total_tokens_out or None,
        llm_calls=trace.llm_calls_count or None,
        cost=trace.total_cost or None,
        duration_ms=round(trace.execution_duration_ms) or None,
    )


def trace_of(record: core.TraceRecord) -> ExecutionTrace:
    """For a reward that was written for ToolBoxV2's traces."""
    tasks: dict[str, Any] = {f"tasks_{status}": [] for status in STATUSES}
    for event in record.tasks:
        kept = {name: value for name, value in asdict(event).items() if name != "status"}
        tasks[f"tasks_{event.status}"].append(kept)
    return ExecutionTrace(
        trace_id=record.id,
        user_query=record.question,
        tool_calls=[_tool_call(call) for call in record.tool_calls],
        reasoning_steps=[_step(step) for step in record.reasoning_steps],
        **tasks,
        final_response=record.response,
        total_tokens_in=record.tokens_in or 0,
        total_tokens_out=record.tokens_out or 0,
        total_cost=record.cost or 0.0,
        execution_duration_ms=float(record.duration_ms or 0),
        llm_calls_count=record.llm_calls or 0,
    )


def _tool_call(call: core.ToolCall) -> ToolCallTrace:
    values = _values(call, ToolCallTrace)
    return ToolCallTrace(**{**values, "duration_ms": call.duration_ms or 0.0, "error": call.error or None})


def _step(step: core.ReasoningStep) -> ReasoningStep:
    return ReasoningStep(step.step_type, step.content, step.confidence or 0.0, list(step.insights), list(step.issues))


class TraceCollector:
    """``storage_path``: the folder of dated files, by default ``~/.toolbox/rl_traces``. Each file is there when
    ``finish_trace`` returns."""

    def __init__(self, storage_path: Path | str | None = None) -> None:
        self.storage_path = Path(storage_path) if storage_path else toolbox.data_folder() / toolbox.TRACES
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
        """Only ``total`` where there are none."""
        traces = list(self.recorder.load_traces())
        if not traces:
            return {"total": 0}
        labels = [trace.label for trace in traces if trace.label is not None]
        return {
            "total": len(traces),
            "labeled": len(labels),
            "unlabeled": len(traces) - len(labels),
            "positive_labels": sum(labels),
            "negative_labels": len(labels) - sum(labels),
            "avg_tool_calls": fmean(len(trace.tool_calls) for trace in traces),
            "avg_reasoning_steps": fmean(len(trace.reasoning_steps) for trace in traces),
            "avg_cost": fmean(trace.total_cost for trace in traces),
        }

    def _run(self) -> OpenTrace | None:
        """The run of this context; in a thread that knows of none, the one that was started last."""
        run = self.recorder.current() or self._open
        return None if run is None or run.finished else run


def hook_into_agent(agent: Any, collector: TraceCollector) -> capture.Hook:
    """From now on each run of the agent is recorded, each with its own tokens and cost. ``unhook()`` of what is returned
    puts everything back."""
    hook = capture.hook_into_agent(agent, collector.recorder)
    agent._trace_collector = collector  # noqa: SLF001  its name in the toolbox
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
