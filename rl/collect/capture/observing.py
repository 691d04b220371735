"""What each kind of observed call leaves in the trace."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping
from contextvars import ContextVar, Token
from operator import add
from time import perf_counter
from typing import Any

from rl.collect.capture import reading
from rl.collect.capture.cleaning import ARGUMENT, TEXT
from rl.collect.capture.collector import TraceCollector
from rl.collect.capture.execution_trace import OpenTrace, milliseconds_since, now
from rl.collect.capture.reading import Usage
from rl.collect.capture.troubles import never_raises


class CallObserver:
    """Observer of one call; the subclasses say what it leaves."""

    def __init__(self, collector: TraceCollector, run: OpenTrace) -> None:
        self.collector, self.run, self.troubles = collector, run, collector.troubles
        self.started = perf_counter()
        self.text: list[str] = []
        self.size = 0
        self._tokens: list[tuple[ContextVar[Any], Token[Any]]] = []

    def context_values(self) -> list[tuple[ContextVar[Any], Any]]:
        """Context variables and what they are while the function's code runs."""
        return [(self.collector.context, self.run)]

    def __enter__(self) -> None:
        self._tokens = [(variable, variable.set(value)) for variable, value in self.context_values()]

    def __exit__(self, *error: object) -> None:
        for variable, token in self._tokens:
            try:
                variable.reset(token)
            except ValueError:  # whoever drives the coroutine has changed the context meanwhile: the old one is gone
                continue

    @never_raises
    def item(self, value: Any) -> None:
        self.collect(value)

    @never_raises
    def end(self, result: Any) -> None:
        self.record_result(result)

    @never_raises
    def fail(self, error: BaseException) -> None:
        self.record_error(error)

    def collect(self, value: Any) -> None:
        text = reading.chunk(value)
        if text and self.size < TEXT:
            self.text.append(text)
            self.size += len(text)

    def record_result(self, result: Any) -> None: ...

    def record_error(self, error: BaseException) -> None: ...


class RunObserver(CallObserver):
    """One run of the agent: a trace. The items of a stream are its answer; FlowAgent's events say more."""

    final: Any = None
    error: Any = None

    def collect(self, value: Any) -> None:
        super().collect(value)
        match value:
            case {"type": "final_answer", "answer": final} | {"type": "done", "final_answer": final} if final:
                self.final = final
            case {"type": "error", "error": error}:
                self.error = error
            case {"type": "reasoning", "chunk": str(thought)}:
                self.collector.record_reasoning_step("stream", thought, trace=self.run)

    def record_result(self, result: Any) -> None:
        final = self.final or "".join(self.text)
        try:
            final = final or reading.answer(result)
        except Exception:  # noqa: BLE001  an object that cannot even be asked what it is
            final = result
        self.collector.finish_trace(final, error=self.error, trace=self.run)

    def record_error(self, error: BaseException) -> None:
        self.collector.finish_trace("".join(self.text), error=error, trace=self.run)


class Tool(CallObserver):
    def __init__(self, collector: TraceCollector, run: OpenTrace, name: str, arguments: Any) -> None:
        super().__init__(collector, run)
        self.name, self.timestamp = name, now()
        # Before the call: the tool may change what it is given.
        self.arguments = collector.clean.value(arguments, ARGUMENT, "arguments")

    def context_values(self) -> list[tuple[ContextVar[Any], Any]]:
        return [*super().context_values(), (self.collector.tool_at_work, self.name)]

    def record_result(self, result: Any) -> None:
        wrong = reading.failure(result)
        self._record("".join(self.text) if self.text else result, not wrong, wrong or None)

    def record_error(self, error: BaseException) -> None:
        self._record("".join(self.text) or None, False, error)

    def _record(self, result: Any, success: bool, error: object) -> None:
        duration = milliseconds_since(self.started)
        self.collector.add_tool_call(
            self.run, self.name, self.arguments, result, success, duration, error, self.timestamp
        )


class LlmCall(CallObserver):
    """Its usage is in the result, in the last items of a stream, or in the agent's counters.

    A call within a call is counted once: the outer one counts only what the counters say beyond the inner one."""

    def __init__(self, collector: TraceCollector, run: OpenTrace, counters: Counters) -> None:
        super().__init__(collector, run)
        self.counters, self.has_inner = counters, False
        self.streamed: Usage | None = None
        self.counted = Usage(0, 0, 0.0)
        outer = collector.llm_at_work.get()
        if isinstance(outer, LlmCall) and outer.run is run:
            outer.has_inner = True
            outer.count()
        counters.begin()

    def context_values(self) -> list[tuple[ContextVar[Any], Any]]:
        return [*super().context_values(), (self.collector.llm_at_work, self)]

    def count(self) -> None:
        self.counted = Usage(*map(add, self.counted, self.counters.take_growth()))

    def collect(self, value: Any) -> None:
        self.streamed = reading.usage(value) or self.streamed

    def record_result(self, result: Any) -> None:
        self._record(reading.usage(result) or self.streamed)

    def record_error(self, error: BaseException) -> None:  # noqa: ARG002  as others of its kind
        self._record(self.streamed)

    def _record(self, reported: Usage | None) -> None:
        self.count()
        self.counters.end()
        used = self.counted if self.has_inner or reported is None else reported
        if any(used) or not self.has_inner:
            self.collector.record_llm_call(*used, trace=self.run)


class Counters:
    """The totals that FlowAgent and its like keep. They grow at the end of each call, before anything else can run, so
    what they have grown by since somebody last looked belongs to the call that ends, even when many sessions share the
    agent."""

    NAMES = ("total_tokens_in", "total_tokens_out", "total_cost_accumulated")

    def __init__(self, agent: object) -> None:
        self._agent: Callable[[], object]
        try:
            self._agent = weakref.ref(agent)
        except TypeError:
            self._agent = lambda: agent
        self._calls = 0
        self._seen = self._read()

    def begin(self) -> None:
        if not self._calls:  # what was counted in between belongs to nobody
            self._seen = self._read()
        self._calls += 1

    def end(self) -> None:
        self._calls -= 1

    def take_growth(self) -> Usage:
        before, self._seen = self._seen, self._read()
        tokens_in, tokens_out, cost = (max(new - old, 0) for new, old in zip(self._seen, before, strict=True))
        return Usage(int(tokens_in), int(tokens_out), cost)

    def _read(self) -> Usage:
        numbers = [reading.number(self._agent(), name) for name in self.NAMES]
        return Usage(int(numbers[0]), int(numbers[1]), numbers[2])


class Thought(CallObserver):
    """A method that thinks: its text is a reasoning step."""

    def __init__(self, collector: TraceCollector, run: OpenTrace, name: str, thought: Any) -> None:
        super().__init__(collector, run)
        self.name, self.thought = name, thought

    def record_result(self, result: Any) -> None:
        content = "".join(self.text) or reading.answer(result) or self.thought
        self.collector.record_reasoning_step(self.name, content, trace=self.run)


class TaskObserver(CallObserver):
    """A method that creates, completes or fails a task, given as a text or as a mapping."""

    def __init__(self, collector: TraceCollector, run: OpenTrace, status: str, task: Any, more: Any) -> None:
        super().__init__(collector, run)
        self.status, self.task, self.more = status, task, more

    def record_result(self, result: Any) -> None:
        task: Mapping[str, Any] = self.task if isinstance(self.task, Mapping) else {"description": self.task}
        new_id = result if self.status == "created" and isinstance(result, (str, int)) else self.task
        task_id = task.get("task_id") or task.get("id") or new_id
        kind, description = task.get("type", ""), task.get("description", "")
        self.collector.record_task(self.status, task_id, kind, description, self.more, self.more, trace=self.run)
