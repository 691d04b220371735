"""What is observed of each kind of method: called before every call, these say whether and as what it is recorded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rl.collect.capture import reading
from rl.collect.capture.collector import TraceCollector
from rl.collect.capture.observing import Call, Counters, LlmCall, Run, Task, Thought, Tool
from rl.collect.capture.open_trace import OpenTrace
from rl.collect.capture.reading import Parameters
from rl.collect.capture.troubles import never_raises

Arguments = tuple[Any, ...]


class Beginning:
    what = "a call"

    def __init__(self, collector: TraceCollector, function: Callable[..., Any], name: str) -> None:
        self.collector, self.troubles, self.name = collector, collector.troubles, name
        self.parameters = Parameters(function)

    @never_raises
    def begin(self, args: Arguments, kwargs: dict[str, Any]) -> Call | None:
        arguments = self.parameters.bind(args, kwargs)
        run = self.collector.run_of(None, self.what)
        return self.call(run, arguments) if run else None

    def call(self, run: OpenTrace, arguments: dict[str, Any]) -> Call | None:
        raise NotImplementedError


class Runs(Beginning):
    """A method that runs the agent. Where one calls another (``run`` calls ``a_run``), the outer one is the run, unless
    the inner one names another session."""

    def __init__(self, collector: TraceCollector, function: Callable[..., Any], name: str, owner: int) -> None:
        super().__init__(collector, function, name)
        self.owner, self.stopped = owner, False

    def stop(self) -> None:
        self.stopped = True

    @never_raises
    def begin(self, args: Arguments, kwargs: dict[str, Any]) -> Call | None:
        if self.stopped:
            return None
        arguments = self.parameters.bind(args, kwargs)
        session = reading.session(arguments)
        if self._is_inner(session):
            return None
        run = self.collector.open_trace(
            reading.query(args, arguments), session or "default", owner=(self.owner, session)
        )
        return Run(self.collector, run)

    def _is_inner(self, session: str) -> bool:
        outer = self.collector.current()
        if outer is None or not isinstance(outer.owner, tuple):
            return False
        owner, outer_session = outer.owner
        return owner == self.owner and (not session or not outer_session or session == outer_session)


class DispatchedTools(Beginning):
    """A method that calls tools by their name."""

    what = "a tool call"

    def call(self, run: OpenTrace, arguments: dict[str, Any]) -> Call | None:
        use = reading.tool_use(arguments, self.name)
        return self.tool(run, use.name, use.arguments)

    def tool(self, run: OpenTrace, name: str, arguments: Any) -> Call | None:
        """None: this is how the call that goes on already reaches the tool."""
        return None if self.collector.tool_at_work.get() == name else Tool(self.collector, run, name, arguments)


class OneTool(DispatchedTools):
    def call(self, run: OpenTrace, arguments: dict[str, Any]) -> Call | None:
        return self.tool(run, self.name, reading.parse_arguments(arguments))


class LlmCalls(Beginning):
    what = "a call of the model"

    def __init__(self, collector: TraceCollector, function: Callable[..., Any], name: str, counters: Counters) -> None:
        super().__init__(collector, function, name)
        self.counters = counters

    def call(self, run: OpenTrace, arguments: dict[str, Any]) -> Call | None:
        return LlmCall(self.collector, run, self.counters)


class Thoughts(Beginning):
    what = "a reasoning step"

    def call(self, run: OpenTrace, arguments: dict[str, Any]) -> Call | None:
        return Thought(self.collector, run, self.name, next(iter(arguments.values()), ""))


class Tasks(Beginning):
    what = "a task"

    def __init__(self, collector: TraceCollector, function: Callable[..., Any], name: str, status: str) -> None:
        super().__init__(collector, function, name)
        self.status = status

    def call(self, run: OpenTrace, arguments: dict[str, Any]) -> Call | None:
        task, *more = [*arguments.values(), None]
        # Some agents call their wrapper of asyncio.create_task by that name.
        known = isinstance(task, (str, int, dict))
        return Task(self.collector, run, self.status, task, more[0]) if known else None
