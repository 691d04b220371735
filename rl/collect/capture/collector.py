"""Records what an agent does, in the agent's own process, and has it delivered from there.

Which run a record belongs to is known by context: each thread, asyncio task and generator sees the run that it is part
of. A thread that the agent starts itself does not inherit it; give it ``trace=``. Nothing here raises into the agent or
does input and output on its thread, except ``flush`` and ``close``, and what reads the files."""

import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

from rl.base.errors import UsageError
from rl.base.records import ReasoningStep, ToolCall
from rl.base.slugs import check_slug
from rl.collect.capture import cleaning
from rl.collect.capture.cleaning import Cleaner, Redact, describe_error, finite, whole
from rl.collect.capture.delivery import Delivery
from rl.collect.capture.execution_trace import MOST_EVENTS, ExecutionTrace, OpenTrace, now
from rl.collect.capture.trace_files import TraceFiles, statistics
from rl.collect.capture.troubles import Troubles, never_raises

RUN = "run"
"""The task that a run which raised an error is recorded as."""


class TraceCollector:
    """To dated files below ``data_dir``, to the API at ``api_url`` as answers of ``agent``, or both.

    ``redact(name, value)`` sees every text and number before it is kept. Raises UsageError for wrong settings."""

    def __init__(
        self,
        data_dir: Path | str | None = None,
        api_url: str | None = None,
        api_key: str | None = None,
        agent: str | None = None,
        *,
        redact: Redact | None = None,
        capacity: int = 1000,
        timeout: float = 10.0,
        exit_timeout: float = 5.0,
        trace_dir: Path | str | None = None,
    ) -> None:
        """``trace_dir``: the dated files, instead of ``rl_traces`` below ``data_dir``; ``capacity``: traces that
        wait at most; ``timeout``: seconds for one answer of the server; ``exit_timeout``: seconds that the end of the
        process may take."""
        if agent is not None:
            check_slug(agent, "agent name")
        self.agent, self.troubles = agent, Troubles()
        self.clean = Cleaner(redact, self.troubles)
        self.context: ContextVar[OpenTrace | None] = ContextVar("run", default=None)
        self.tool_at_work: ContextVar[str] = ContextVar("tool", default="")
        self.llm_at_work: ContextVar[object] = ContextVar("llm call", default=None)
        self._delivery = Delivery(
            data_dir, api_url, api_key, agent, self.troubles, capacity, timeout, exit_timeout, trace_dir
        )

    def start_trace(
        self,
        user_query: str,
        *,
        session_id: str = "default",
        trace_id: str | None = None,
        earlier: Sequence[Mapping[str, Any]] = (),
    ) -> OpenTrace | None:
        """The run that this context, and what it starts, is part of until ``finish_trace``. ``earlier``: the chat messages
        before the question, with ``role`` and ``content``: the system prompt, and turns that are over. Raises TypeError for
        arguments that it does not have, and nothing else."""
        return self._start(user_query, session_id, trace_id, earlier)

    @never_raises
    def _start(
        self, user_query: str, session_id: str, trace_id: str | None, earlier: Sequence[Mapping[str, Any]]
    ) -> OpenTrace | None:
        trace = self.open_trace(user_query, session_id, trace_id=trace_id)
        trace.earlier = self.clean.messages(earlier, "earlier")
        self.context.set(trace)
        return trace

    def open_trace(
        self, user_query: Any, session_id: str, *, trace_id: str | None = None, owner: object = None
    ) -> OpenTrace:
        return OpenTrace(
            trace_id=uuid.uuid4().hex if trace_id is None else check_slug(trace_id, "trace id"),
            session_id=self.clean.text(session_id, cleaning.NAME, "session_id"),
            user_query=self.clean.text(user_query, cleaning.TEXT, "user_query"),
            outer=self.current(),
            owner=owner,
        )

    def current(self) -> OpenTrace | None:
        trace = self.context.get()
        while trace is not None and trace.finished:
            trace = trace.outer
        return trace

    @never_raises
    def record_tool_call(
        self,
        tool_name: str,
        arguments: Any = None,
        result: Any = None,
        success: bool = True,
        duration_ms: float | None = None,
        error: object = None,
        *,
        timestamp: str = "",
        trace: OpenTrace | None = None,
    ) -> None:
        if run := self.run_of(trace, "a tool call"):
            cleaned = self.clean.value(arguments, cleaning.ARGUMENT, "arguments")
            at = self.clean.text(str(timestamp), cleaning.NAME, "timestamp") if timestamp else ""
            self.add_tool_call(run, tool_name, cleaned, result, success, duration_ms, error, at)

    def add_tool_call(
        self,
        run: OpenTrace,
        tool_name: str,
        arguments: Any,
        result: Any,
        success: bool,
        duration_ms: float | None,
        error: object,
        timestamp: str,
    ) -> None:
        """``arguments``: cleaned before the tool could change them."""
        call = ToolCall(
            tool_name=self.clean.text(tool_name, cleaning.NAME, "tool_name"),
            arguments=arguments,
            result=self.clean.fit(result, cleaning.TOOL_RESULT, "result"),
            success=bool(success),
            duration_ms=finite(duration_ms) or None,
            error="" if error is None else self.clean.text(describe_error(error), cleaning.TASK, "error"),
            timestamp=timestamp or now(),
        )
        self._add(run, run.tool_calls, call)

    @never_raises
    def record_reasoning_step(
        self,
        step_type: str,
        content: str,
        confidence: float | None = None,
        insights: Iterable[str] = (),
        issues: Iterable[str] = (),
        *,
        trace: OpenTrace | None = None,
    ) -> None:
        if run := self.run_of(trace, "a reasoning step"):
            step = ReasoningStep(
                content=self.clean.text(content, cleaning.REASONING, "content"),
                step_type=self.clean.text(step_type, cleaning.NAME, "step_type"),
                confidence=finite(confidence),
                insights=self._texts(insights, "insights"),
                issues=self._texts(issues, "issues"),
            )
            self._add(run, run.reasoning_steps, step)

    @never_raises
    def record_task(
        self,
        status: str,
        task_id: object,
        type: str = "",
        description: str = "",
        result: object = None,
        error: object = None,
        *,
        trace: OpenTrace | None = None,
    ) -> None:
        """``status``: created, completed or failed."""
        if run := self.run_of(trace, "a task"):
            task = {
                "task_id": self.clean.text(str(task_id), cleaning.NAME, "task_id"),
                "type": self.clean.text(type, cleaning.NAME, "type"),
                "description": self.clean.text(description, cleaning.TASK, "description"),
                "timestamp": now(),
            }
            if status == "completed":
                task["result"] = self.clean.text(result, cleaning.TASK, "result")
            if status == "failed":
                task["error"] = self.clean.text(describe_error(error), cleaning.TASK, "error")
            self._add(run, run.tasks[status], task)

    @never_raises
    def record_llm_call(
        self, tokens_in: int = 0, tokens_out: int = 0, cost: float = 0.0, *, trace: OpenTrace | None = None
    ) -> None:
        """``cost`` in whatever currency you count."""
        if run := self.run_of(trace, "a call of the model"):
            self._add(run, run.llm_calls, (whole(tokens_in), whole(tokens_out), max(finite(cost) or 0.0, 0.0)))

    @never_raises
    def finish_trace(
        self,
        final_response: str = "",
        *,
        error: object = None,
        figures: Mapping[str, Any] | None = None,
        trace: OpenTrace | None = None,
    ) -> ExecutionTrace | None:
        """With an ``error`` the run is a failed task too, and the error its answer if it gave none. ``figures``: fields of
        the trace that stand in for what was counted and timed."""
        run = self.run_of(trace, "the end of a run")
        if run is None:
            return None
        response = self.clean.text(final_response, cleaning.TEXT, "final_response")
        if error is not None:
            what = self.clean.text(describe_error(error), cleaning.TASK, "error")
            task = {"task_id": RUN, "type": RUN, "description": run.user_query[: cleaning.TASK]}
            run.tasks["failed"].append({**task, "timestamp": now(), "error": what})
            response = response or f"Error: {what}"
        if self.context.get() is run:
            self.context.set(run.outer)
        finished = replace(run.finish(response), **(figures or {}))
        self._delivery.put(finished)
        return finished

    def load_traces(self) -> Iterator[ExecutionTrace]:
        """All of the files, newest first."""
        return self._trace_files().all()

    def get_unlabeled_traces(self, limit: int = 100) -> list[ExecutionTrace]:
        """Newest first."""
        traces = (trace for trace in self.load_traces() if trace.label is None)
        return list(islice(traces, limit))

    def label_trace(self, trace_id: str, label: bool | None, notes: str = "") -> ExecutionTrace:
        """True good, False bad. Raises UsageError when there is no such trace."""
        return self._trace_files().label(trace_id, label, self.clean.text(notes, cleaning.REASONING, "review_notes"))

    def get_statistics(self) -> dict[str, Any]:
        """Under the names that ToolBoxV2 has for them."""
        agent = self.agent or ""
        about = {"agents_discovered": [agent] if agent else [], "checkpoints_available": 0}
        return {**statistics((agent, trace) for trace in self.load_traces()), **about}

    def flush(self, timeout: float = 10.0) -> bool:
        """Waits until all is written and sent, or given up; False when the time is over first."""
        return self._delivery.flush(timeout)

    def close(self, timeout: float | None = None) -> bool:
        """Flushes, ends the threads; what is not sent then waits in the outbox. Called at the end of the process."""
        return self._delivery.close(timeout)

    @property
    def counts(self) -> dict[str, int]:
        """Traces that were ``written``, ``sent``, ``refused``, ``kept`` in the outbox, ``lost``, or are ``waiting``."""
        return self._delivery.count_traces()

    def run_of(self, trace: OpenTrace | None, what: str) -> OpenTrace | None:
        """``trace``, else the run of this context; None when there is none, or it is over."""
        run = trace if trace is not None else self.current()
        if run is None or run.finished:
            self.troubles.once(
                f"outside:{what}",
                "%s belongs to no run and is not recorded; a thread that the agent "
                "starts needs trace=, or contextvars.copy_context().run",
                what,
            )
            return None
        return run

    def _add(self, run: OpenTrace, events: list[Any], event: object) -> None:
        if not run.add(events, event):
            self.troubles.once("too many", "a run has more than %d events of a kind; the rest is left out", MOST_EVENTS)

    def _texts(self, values: Iterable[str] | str | None, name: str) -> tuple[str, ...]:
        texts = (values,) if isinstance(values, str) else values or ()
        return tuple(self.clean.text(text, cleaning.REASONING, name) for text in islice(texts, cleaning.MOST_ITEMS))

    def _trace_files(self) -> TraceFiles:
        if self._delivery.files is None:
            raise UsageError("traces that only go to the API are looked at and labelled in the site; give data_dir too")
        self._delivery.flush_disk()
        return self._delivery.files
