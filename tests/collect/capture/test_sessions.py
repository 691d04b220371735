"""Runs at the same time, in threads, tasks and generators, never see each other."""

import asyncio
import contextvars
import random
import threading
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from rl.collect import ExecutionTrace, TraceCollector, hook_into_agent
from tests.collect.capture.conftest import only, traces


class Busy:
    """Each run calls five tools, each with its query, and yields to the others wherever it can."""

    def call_tool(self, name: str, query: str) -> str:
        return query

    async def acall_tool(self, name: str, query: str) -> str:
        await asyncio.sleep(random.random() / 1000)
        return query

    async def a_run(self, query: str, session_id: str = "default") -> str:
        await asyncio.gather(*(self.acall_tool(f"t{n}", query=query) for n in range(4)))
        await asyncio.to_thread(self.call_tool, "in a thread", query)
        return query

    def run(self, query: str, session_id: str = "default") -> str:
        for n in range(5):
            self.call_tool(f"t{n}", query=query)
        return query

    def stream(self, query: str, session_id: str = "default") -> Iterator[str]:
        for n in range(5):
            self.call_tool(f"t{n}", query=query)
            yield query if n == 4 else ""

    async def a_stream(self, query: str, session_id: str = "default") -> AsyncIterator[str]:
        for n in range(5):
            await self.acall_tool(f"t{n}", query=query)
            yield query if n == 4 else ""


def assert_unmixed(found: list[ExecutionTrace], count: int) -> None:
    assert len({trace.trace_id for trace in found}) == count
    for trace in found:
        assert trace.session_id == f"session of {trace.user_query}"
        assert trace.final_response == trace.user_query
        assert [call.arguments["query"] for call in trace.tool_calls] == [trace.user_query] * 5


def test_100_sessions_of_one_agent_in_one_loop(collector: TraceCollector):
    agent = Busy()
    hook_into_agent(agent, collector)

    async def streamed(query: str) -> None:
        assert [part async for part in agent.a_stream(query, f"session of {query}")][-1] == query

    async def everybody() -> None:
        runs = [agent.a_run(f"q{n}", session_id=f"session of q{n}") for n in range(50)]
        await asyncio.gather(*runs, *(streamed(f"q{n}") for n in range(50, 100)))

    asyncio.run(everybody())
    assert_unmixed(traces(collector), 100)


def test_threads(collector: TraceCollector):
    agent = Busy()
    hook_into_agent(agent, collector)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: agent.run(f"q{n}", f"session of q{n}"), range(100)))
    assert_unmixed(traces(collector), 100)


def test_generators_that_take_turns(collector: TraceCollector):
    agent = Busy()
    hook_into_agent(agent, collector)
    steps = [agent.stream(f"q{n}", session_id=f"session of q{n}") for n in range(10)]
    while steps:
        steps = [one for one in steps if next(one, None) is not None]
        assert collector.current() is None  # nothing leaks to who iterates
    assert_unmixed(traces(collector), 10)


def test_async_generators_that_take_turns_in_one_task(collector: TraceCollector):
    agent = Busy()
    hook_into_agent(agent, collector)

    async def turns() -> None:
        steps = [agent.a_stream(f"q{n}", session_id=f"session of q{n}") for n in range(10)]
        while steps:
            steps = [one for one in steps if await anext(one, None) is not None]
            assert collector.current() is None

    asyncio.run(turns())
    assert_unmixed(traces(collector), 10)


def test_a_thread_of_the_agents_own_needs_the_trace_or_the_context(collector: TraceCollector, warnings):
    run = collector.start_trace("q")
    context = contextvars.copy_context()
    for target in (
        lambda: collector.record_tool_call("explicit", trace=run),
        lambda: context.run(collector.record_tool_call, "by context"),
        lambda: collector.record_tool_call("lost"),
    ):
        thread = threading.Thread(target=target)
        thread.start()
        thread.join()
    collector.finish_trace("a")
    assert [call.tool_name for call in only(collector).tool_calls] == ["explicit", "by context"]
    assert "trace=" in warnings()[0]


def test_one_run_within_another(collector: TraceCollector):
    class Helper:
        def run(self, query: str) -> str:
            collector.record_llm_call(1, 1)
            return "helped"

    class Boss:
        def run(self, query: str) -> str:
            collector.record_llm_call(10, 10)
            helper.run("sub-question")
            collector.record_llm_call(100, 100)
            return "done"

    helper, boss = Helper(), Boss()
    hook_into_agent(helper, collector)
    hook_into_agent(boss, collector)
    assert boss.run("question") == "done"
    outer, inner = traces(collector)
    assert (outer.user_query, outer.total_tokens_in) == ("question", 110)
    assert (inner.user_query, inner.total_tokens_in) == ("sub-question", 1)


def test_a_method_that_runs_through_another_is_one_run_unless_it_names_another_session(collector: TraceCollector):
    class Agent:
        def run(self, query: str) -> str:
            return asyncio.run(self.a_run(query, session_id="mine"))

        async def a_run(self, query: str, session_id: str = "default") -> str:
            return "".join([part async for part in self.a_stream(query, session_id=session_id)])

        async def a_stream(self, query: str, session_id: str) -> AsyncIterator[str]:
            if query == "delegate":
                yield await self.a_run("sub-question", session_id="delegated")
            yield query

    agent = Agent()
    hook_into_agent(agent, collector)
    assert agent.run("q") == "q"
    assert asyncio.run(agent.a_run("delegate", session_id="s")) == "sub-questiondelegate"
    assert [(trace.user_query, trace.session_id) for trace in traces(collector)] == [
        ("q", "default"),
        ("delegate", "s"),
        ("sub-question", "delegated"),
    ]


def test_tools_that_run_at_once_in_one_run(collector: TraceCollector):
    class Agent:
        tools: dict[str, Any]

        def run(self, query: str) -> str:
            with ThreadPoolExecutor(4) as pool:
                jobs = [pool.submit(contextvars.copy_context().run, self.tools["slow"], n) for n in range(50)]
            return str(sum(job.result() for job in jobs))

    agent = Agent()
    agent.tools = {"slow": lambda n: n}
    hook_into_agent(agent, collector)
    assert agent.run("q") == "1225"
    assert sorted(call.result for call in only(collector).tool_calls) == list(range(50))
