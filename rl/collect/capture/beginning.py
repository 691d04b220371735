"""What is observed of each kind of method: called before every call, these say whether and as what it is recorded."""

from collections.abc import Callable
from dataclasses import InitVar, dataclass
from typing import Any, ClassVar

from rl.collect.capture import reading
from rl.collect.capture.collector import TraceCollector
from rl.collect.capture.execution_trace import OpenTrace
from rl.collect.capture.observing import CallObserver, Counters, LlmCall, RunObserver, TaskObserver, Thought, Tool
from rl.collect.capture.reading import Parameters
from rl.collect.capture.troubles import never_raises

Arguments = tuple[Any, ...]


@dataclass(eq=False)
class Beginning:
    collector: TraceCollector
    function: InitVar[Callable[..., Any]]
    """It is not kept: a method would keep its agent alive."""
    name: str
    what: ClassVar[str] = "a call"

    def __post_init__(self, function: Callable[..., Any]) -> None:
        self.troubles, self.parameters = self.collector.troubles, Parameters(function)

    @never_raises
    def begin(self, args: Arguments, kwargs: dict[str, Any]) -> CallObserver | None:
        arguments = self.parameters.bind(args, kwargs)
        run = self.collector.run_of(None, self.what)
        return self.call(run, arguments) if run else None

    def call(self, run: OpenTrace, arguments: dict[str, Any]) -> CallObserver | None:
        raise NotImplementedError


@dataclass(eq=False)
class Runs(Beginning):
    """A method that runs the agent. Where one calls another (``run`` calls ``a_run``), the outer one is the run, unless
    the inner one names another session."""

    owner: int
    stopped: bool = False

    def stop(self) -> None:
        self.stopped = True

    @never_raises
    def begin(self, args: Arguments, kwargs: dict[str, Any]) -> CallObserver | None:
        if self.stopped:
            return None
        arguments = self.parameters.bind(args, kwargs)
        session = reading.session(arguments)
        if self._is_inner(session):
            return None
        run = self.collector.open_trace(
            reading.query(args, arguments), session or "default", owner=(self.owner, session)
        )
        return RunObserver(self.collector, run)

    def _is_inner(self, session: str) -> bool:
        outer = self.collector.current()
        if outer is None or not isinstance(outer.owner, tuple):
            return False
        owner, outer_session = outer.owner
        return owner == self.owner and (not session or not outer_session or session == outer_session)


class DispatchedTools(Beginning):
    """A method that calls tools by their name."""

    what = "a tool call"

    def call(self, run: OpenTrace, arguments: dict[str, Any]) -> CallObserver | None:
        use = reading.tool_use(arguments, self.name)
        return self.tool(run, use.name, use.arguments)

    def tool(self, run: OpenTrace, name: str, arguments: Any) -> CallObserver | None:
        """None: this is how the call that goes on already reaches the tool."""
        return None if self.collector.tool_at_work.get() == name else Tool(self.collector, run, name, arguments)


class OneTool(DispatchedTools):
    def call(self, run: OpenTrace, arguments: dict[str, Any]) -> CallObserver | None:
        return self.tool(run, self.name, reading.parse_arguments(arguments))


@dataclass(eq=False)
class LlmCalls(Beginning):
    what = "a call of the model"
    counters: Counters

    def call(self, run: OpenTrace, arguments: dict[str, Any]) -> CallObserver | None:  # noqa: ARG002  as others of its kind
        return LlmCall(self.collector, run, self.counters)


class Thoughts(Beginning):
    what = "a reasoning step"

    def call(self, run: OpenTrace, arguments: dict[str, Any]) -> CallObserver | None:
        return Thought(self.collector, run, self.name, next(iter(arguments.values()), ""))


@dataclass(eq=False)
class Tasks(Beginning):
    what = "a task"
    status: str

    def call(self, run: OpenTrace, arguments: dict[str, Any]) -> CallObserver | None:
        task, *more = [*arguments.values(), None]
        # Some agents call their wrapper of asyncio.create_task by that name.
        known = isinstance(task, (str, int, dict))
        return TaskObserver(self.collector, run, self.status, task, more[0]) if known else None
