"""Sync, async, generators: the agent's own behaviour stays exactly the same, whatever kind it is."""

import asyncio
import inspect
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from rl.collect import TraceCollector, hook_into_agent
from tests.collect.capture.conftest import only, traces


class Boom(Exception):
    pass


BOOM = Boom("no such parcel")


@pytest.fixture(autouse=True)
def _never_raised_before() -> None:
    BOOM.__context__ = BOOM.__traceback__ = None


class Agent:
    """One method of each kind; ``boom`` as the query makes it raise."""

    def __init__(self) -> None:
        self.closed: list[str] = []

    def call_tool(self, name: str, **arguments: Any) -> str:
        return f"{name} ok"

    def run(self, query: str) -> str:
        self.call_tool("track", parcel=7)
        if query == "boom":
            raise BOOM
        return f"answer to {query}"

    async def a_run(self, query: str) -> str:
        await asyncio.sleep(0)
        self.call_tool("track", parcel=7)
        if query == "boom":
            raise BOOM
        return f"answer to {query}"

    def stream(self, query: str) -> Iterator[str]:
        try:
            got = yield "first "
            self.call_tool("track", got=got)
            try:
                yield "second "
            except LookupError as error:
                yield f"caught {error} "
            if query == "boom":
                raise BOOM
            return "the end"
        finally:
            self.closed.append(query)

    async def a_stream(self, query: str) -> AsyncIterator[str]:
        try:
            got = yield "first "
            await asyncio.sleep(0)
            self.call_tool("track", got=got)
            try:
                yield "second "
            except LookupError as error:
                yield f"caught {error} "
            if query == "boom":
                raise BOOM
        finally:
            self.closed.append(query)


@pytest.fixture
def agent(collector: TraceCollector) -> Agent:
    agent = Agent()
    hook_into_agent(agent, collector)
    return agent


def test_a_function_that_returns(agent: Agent, collector: TraceCollector):
    assert agent.run("q") == "answer to q"
    trace = only(collector)
    assert (trace.user_query, trace.final_response, trace.session_id) == ("q", "answer to q", "default")
    [call] = trace.tool_calls
    assert (call.tool_name, call.arguments, call.result, call.success) == ("track", {"parcel": 7}, "track ok", True)


def test_a_coroutine(agent: Agent, collector: TraceCollector):
    assert asyncio.run(agent.a_run(query="q")) == "answer to q"
    assert [call.tool_name for call in only(collector).tool_calls] == ["track"]


@pytest.mark.parametrize("run", [lambda agent: agent.run("boom"), lambda agent: asyncio.run(agent.a_run("boom"))])
def test_the_agents_own_exception_passes_through(agent: Agent, collector: TraceCollector, run):
    with pytest.raises(Boom) as caught:
        run(agent)
    assert caught.value is BOOM
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None
    trace = only(collector)
    assert trace.final_response == "Error: Boom: no such parcel"
    assert trace.tasks_failed[0]["error"] == "Boom: no such parcel"
    assert len(trace.tool_calls) == 1


def test_a_generator_gets_what_is_sent_and_thrown_and_returns_its_value(agent: Agent, collector: TraceCollector):
    steps = agent.stream("q")
    assert next(steps) == "first "
    assert steps.send("mail") == "second "
    assert steps.throw(LookupError("me")) == "caught me "
    with pytest.raises(StopIteration) as stop:
        next(steps)
    assert stop.value.value == "the end"
    trace = only(collector)
    assert trace.final_response == "first second caught me "
    assert trace.tool_calls[0].arguments == {"got": "mail"}


def test_an_async_generator_gets_what_is_sent_and_thrown(agent: Agent, collector: TraceCollector):
    async def drive() -> None:
        steps = agent.a_stream("q")
        assert await anext(steps) == "first "
        assert await steps.asend("mail") == "second "
        assert await steps.athrow(LookupError("me")) == "caught me "
        with pytest.raises(StopAsyncIteration):
            await anext(steps)

    asyncio.run(drive())
    trace = only(collector)
    assert trace.final_response == "first second caught me "
    assert trace.tool_calls[0].arguments == {"got": "mail"}


async def consumed(steps: AsyncIterator[str]) -> list[str]:
    return [item async for item in steps]


@pytest.mark.parametrize(
    "run", [lambda agent: list(agent.stream("boom")), lambda agent: asyncio.run(consumed(agent.a_stream("boom")))]
)
def test_an_exception_in_a_generator_keeps_what_it_yielded(agent: Agent, collector: TraceCollector, run):
    with pytest.raises(Boom) as caught:
        run(agent)
    assert caught.value is BOOM
    trace = only(collector)
    assert trace.final_response == "first second "
    assert trace.tasks_failed[0]["error"] == "Boom: no such parcel"


def test_a_generator_that_is_left_early_is_closed_and_recorded(agent: Agent, collector: TraceCollector):
    for _ in agent.stream("sync"):
        break

    async def leave() -> None:
        steps = agent.a_stream("async")
        async for _ in steps:
            break
        await steps.aclose()  # type: ignore[attr-defined]

    asyncio.run(leave())
    assert agent.closed == ["sync", "async"]
    assert [(trace.final_response, trace.tasks_failed) for trace in traces(collector)] == [("first ", [])] * 2


def test_a_generator_that_is_never_started_is_no_run(agent: Agent, collector: TraceCollector):
    agent.stream("q").close()  # type: ignore[attr-defined]
    assert traces(collector) == []


def test_a_cancelled_run_is_recorded_and_stays_cancelled(collector: TraceCollector):
    class Slow:
        async def a_run(self, query: str) -> str:
            await asyncio.sleep(60)
            return "never"

    async def cancel() -> None:
        task = asyncio.create_task(agent.a_run("q"))
        await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    agent = Slow()
    hook_into_agent(agent, collector)
    asyncio.run(cancel())
    assert only(collector).tasks_failed[0]["error"] == "CancelledError"


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, GeneratorExit, RecursionError, MemoryError])
def test_every_kind_of_exception_passes_through(collector: TraceCollector, error: type[BaseException]):
    def agent(query: str) -> str:
        raise error

    with pytest.raises(error):
        hook_into_agent(agent, collector).agent("q")
    assert only(collector).tasks_failed[0]["error"] == error.__name__


def test_hooked_functions_look_the_same():
    plain, hooked = Agent(), Agent()
    collector = TraceCollector(data_dir="/nonexistent")
    with hook_into_agent(hooked, collector):
        for name in ("run", "a_run", "stream", "a_stream"):
            before, after = getattr(plain, name), getattr(hooked, name)
            for kind in ("iscoroutinefunction", "isgeneratorfunction", "isasyncgenfunction", "ismethod"):
                assert getattr(inspect, kind)(before) == getattr(inspect, kind)(after)
            assert inspect.signature(before) == inspect.signature(after)
            assert (before.__name__, before.__doc__) == (after.__name__, after.__doc__)
    collector.close(0)


def test_a_plain_function_that_gives_back_work_is_followed_to_its_end(collector: TraceCollector):
    async def work(query: str) -> str:
        await asyncio.sleep(0)
        collector.record_llm_call(1, 1)
        return f"answer to {query}"

    class Coroutines:
        def run(self, query: str) -> Any:
            return work(query)

    class Tasks:
        def run(self, query: str) -> Any:
            return asyncio.get_running_loop().create_task(work(query))

    class Generators:
        def run(self, query: str) -> Any:
            return (part for part in ("answer ", "to ", query))

    async def both() -> None:
        for kind in (Coroutines, Tasks):
            agent = kind()
            hook_into_agent(agent, collector)
            assert await agent.run("q") == "answer to q"
        await asyncio.sleep(0)  # the callbacks of the finished task

    asyncio.run(both())
    agent = Generators()
    hook_into_agent(agent, collector)
    assert "".join(agent.run("q")) == "answer to q"
    found = traces(collector)
    assert [trace.final_response for trace in found] == ["answer to q"] * 3
    assert [trace.llm_calls_count for trace in found] == [1, 1, 0]


class Unsettled:
    def add_done_callback(self, callback: object) -> None:
        raise Boom


class Nobody:
    @property
    def __class__(self) -> type:  # type: ignore[override]
        raise Boom


class Unlisted(dict[str, int]):
    def items(self) -> Any:
        raise Boom


@pytest.mark.parametrize("kind", [Unsettled, Nobody, Unlisted])
def test_a_result_that_cannot_even_be_looked_at_reaches_the_caller_and_is_recorded(
    collector: TraceCollector, kind: type
):
    result = kind()
    hook = hook_into_agent(lambda query: result, collector)
    assert hook.agent("q") is result
    assert only(collector).user_query == "q"


def test_an_agent_that_is_a_function_comes_back_observed(collector: TraceCollector):
    async def agent(query: str) -> str:
        return query.upper()

    hook = hook_into_agent(agent, collector)
    assert asyncio.run(hook.agent("q")) == "Q"
    assert asyncio.run(agent("unobserved")) == "UNOBSERVED"
    assert only(collector).final_response == "Q"
    assert asyncio.run(hook_into_agent(hook.agent, collector).agent("twice")) == "TWICE"
    assert len(traces(collector)) == 2
    hook.unhook()
    assert asyncio.run(hook.agent("unobserved")) == "UNOBSERVED"
    assert len(traces(collector)) == 2


def test_an_exception_while_a_generator_is_closed_passes_through(collector: TraceCollector):
    class Agent:
        def stream(self, query: str) -> Iterator[str]:
            try:
                yield "first"
            finally:
                raise BOOM

        async def a_stream(self, query: str) -> AsyncIterator[str]:
            try:
                yield "first"
            finally:
                raise BOOM

    async def leave() -> None:
        steps = agent.a_stream("q")
        await anext(steps)
        await steps.aclose()  # type: ignore[attr-defined]

    agent = Agent()
    hook_into_agent(agent, collector)
    steps = agent.stream("q")
    next(steps)
    with pytest.raises(Boom):
        steps.close()  # type: ignore[attr-defined]
    with pytest.raises(Boom):
        asyncio.run(leave())
    assert [trace.tasks_failed[0]["error"] for trace in traces(collector)] == ["Boom: no such parcel"] * 2
