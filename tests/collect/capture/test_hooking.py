import asyncio
import copy
import pickle
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from rl.base.errors import UsageError
from rl.collect import TraceCollector, hook_into_agent
from tests.collect.capture.conftest import only, traces


def add(a: int, b: int) -> int:
    return a + b


def calls(collector: TraceCollector) -> list[tuple[str, Any, Any]]:
    return [(call.tool_name, call.arguments, call.result) for call in only(collector).tool_calls]


@dataclass
class WithTools:
    """Calls each of its tools with 1 and 2."""

    tools: Any

    def run(self, query: str) -> str:
        tools = self.tools.values() if isinstance(self.tools, dict) else self.tools
        return ",".join(str(self.reach(tool)(1, b=2)) for tool in tools)

    def reach(self, tool: Any) -> Any:
        return tool.get("function") or tool.get("func") if isinstance(tool, dict) else tool


class Adder:
    name = "adder"

    def __call__(self, a: int, b: int) -> int:
        return a + b


class Slotted:
    __slots__ = ()

    def __call__(self, a: int, b: int) -> int:
        return a + b


@pytest.mark.parametrize(
    ("tools", "name"),
    [
        ({"plus": add}, "plus"),
        ([add], "add"),
        ([partial(add)], "add"),
        ([{"name": "plus", "func": add, "schema": {}}], "plus"),
        ({"plus": {"function": add}}, "plus"),
        ([Adder()], "adder"),
        ((Adder(),), "adder"),
        ({"plus": Slotted()}, "plus"),
    ],
)
def test_tools_in_a_mapping_or_a_list(collector: TraceCollector, tools: Any, name: str):
    agent = WithTools(tools)
    before = copy.copy(tools)
    hook = hook_into_agent(agent, collector)
    assert agent.run("q") == "3"
    hook.unhook()
    assert agent.run("unobserved") == "3"
    assert agent.tools == before
    [(called, arguments, result)] = calls(collector)
    assert (called, result) == (name, 3)
    assert arguments in ({"a": 1, "b": 2}, {"*args": [1], "b": 2})


@pytest.mark.parametrize("tools", [None, "search", 3, [], [int], ("search",)])
def test_an_agent_whose_tools_are_something_else(collector: TraceCollector, tools: Any):
    agent = SimpleNamespace(tools=tools, run=lambda query: "a")
    with hook_into_agent(agent, collector):
        assert agent.run("q") == "a"
    assert agent.tools == tools
    assert only(collector).final_response == "a"


def test_schemas_are_no_tools(collector: TraceCollector):
    agent = SimpleNamespace(tools=[{"type": "function", "function": {"name": "x"}}], run=lambda query: "a")
    with hook_into_agent(agent, collector):
        assert agent.run("q") == "a"
    assert only(collector).final_response == "a"


def test_async_and_generator_tools(collector: TraceCollector):
    class Agent:
        async def a_run(self, query: str) -> str:
            one = await self.tools["one"](n=1)
            many = [part async for part in self.tools["many"](n=2)]
            return f"{one} {''.join(many)}"

        async def one(self, n: int) -> str:
            await asyncio.sleep(0.005)
            return "o"

        async def many(self, n: int) -> AsyncIterator[str]:
            yield "m"
            yield "n"

        def __init__(self) -> None:
            self.tools: dict[str, Any] = {"one": self.one, "many": self.many}

    agent = Agent()
    hook_into_agent(agent, collector)
    assert asyncio.run(agent.a_run("q")) == "o mn"
    first, second = only(collector).tool_calls
    assert (first.result, second.result) == ("o", "mn")
    assert first.duration_ms is not None
    assert first.duration_ms >= 5


def test_a_tool_call_that_is_reached_in_two_ways_is_one(collector: TraceCollector):
    class Agent:
        def __init__(self) -> None:
            self.tools = {"add": add}

        def run(self, query: str) -> str:
            return str(self.call_tool("add", {"a": 1, "b": 2}))

        def call_tool(self, name: str, arguments: dict[str, int]) -> int:
            return self.tools[name](**arguments)

    agent = Agent()
    hook_into_agent(agent, collector, tools=["call_tool", "tools"])
    agent.run("q")
    assert calls(collector) == [("add", {"a": 1, "b": 2}, 3)]


OPENAI = SimpleNamespace(id="c1", function=SimpleNamespace(name="add", arguments='{"a": 1}'))


def by_name(name: str, **arguments: Any) -> None: ...
def with_arguments(tool_name: str, arguments: Any = None) -> None: ...
def with_context(session: str, tool: str, params: Any) -> None: ...
def with_call(tool_call: Any) -> None: ...
def other_words(which: str, **rest: Any) -> None: ...
def anything(*args: Any, **kwargs: Any) -> None: ...


@pytest.mark.parametrize(
    ("dispatcher", "given", "named"),
    [
        (by_name, ("add",), {"a": 1}),
        (by_name, (), {"name": "add", "a": 1}),
        (with_arguments, ("add", {"a": 1}), {}),
        (with_arguments, (), {"tool_name": "add", "arguments": '{"a": 1}'}),
        (with_call, (OPENAI,), {}),
        (with_call, ({"type": "function", "function": {"name": "add", "arguments": '{"a": 1}'}},), {}),
        (with_call, ({"name": "add", "arguments": {"a": 1}},), {}),
        (other_words, ("add",), {"a": 1}),
        (anything, ("add", {"a": 1}), {}),
        (anything, ("add",), {"a": 1}),
        (anything, (OPENAI,), {}),
        (anything, (), {"name": "add", "args": {"a": 1}}),
    ],
)
def test_how_agents_say_which_tool_to_call(collector: TraceCollector, dispatcher: Any, given: Any, named: Any):
    agent = SimpleNamespace(run=lambda query: agent.execute_tool(*given, **named), execute_tool=dispatcher)
    hook_into_agent(agent, collector)
    agent.run("q")
    assert calls(collector) == [("add", {"a": 1}, None)]


def test_a_tool_call_without_a_name(collector: TraceCollector):
    agent = SimpleNamespace(run=lambda query: agent.execute_tool(*query), execute_tool=with_context)
    hook_into_agent(agent, collector)
    agent.run(("s", "add", {"a": 1}))
    agent.execute_tool = anything
    hook_into_agent(agent, collector)
    agent.run(())
    assert [(c.tool_name, c.arguments) for trace in traces(collector) for c in trace.tool_calls] == [
        ("add", {"session": "s", "params": {"a": 1}}),
        ("execute_tool", {}),
    ]


@pytest.mark.parametrize(
    ("result", "error"),
    [
        ({"success": False, "error": "no parcel"}, "no parcel"),
        ({"ok": False}, "False"),
        ({"isError": True, "content": [{"type": "text", "text": "no parcel"}]}, "no parcel"),
        (SimpleNamespace(is_error=True, error=None, text="no parcel"), "no parcel"),
        ({"error": "no parcel"}, "no parcel"),
        ({"success": True, "error": "a warning"}, ""),
        ({"error": None}, ""),
        ("Error: that is just text", ""),
        (None, ""),
    ],
)
def test_tools_that_fail_without_raising(collector: TraceCollector, result: Any, error: str):
    agent = WithTools({"t": lambda *args, **kwargs: result})
    hook_into_agent(agent, collector)
    agent.run("q")
    [call] = only(collector).tool_calls
    assert call.success == (not error)
    assert error in call.error
    assert bool(error) == bool(call.error)


def test_a_tool_that_raises_and_one_that_changes_what_it_is_given(collector: TraceCollector):
    failing = LookupError("no parcel 7")

    def tool(order: dict[str, int]) -> None:
        order["parcel"] = 0
        raise failing

    class Agent:
        def __init__(self) -> None:
            self.tools = {"tool": tool}

        def run(self, query: str) -> str:
            with pytest.raises(LookupError) as caught:
                self.tools["tool"](order={"parcel": 7})
            assert caught.value is failing
            return "sorry"

    agent = Agent()
    hook_into_agent(agent, collector)
    assert agent.run("q") == "sorry"
    [call] = only(collector).tool_calls
    assert (call.success, call.error, call.arguments) == (False, "LookupError: no parcel 7", {"order": {"parcel": 7}})


def test_an_argument_that_is_no_json(collector: TraceCollector):
    class Connection:
        def __repr__(self) -> str:
            return "<Connection " + "x" * 5000

    agent = WithTools({"t": lambda *args, **kwargs: Connection()})
    hook_into_agent(agent, collector)
    agent.run("q")
    [call] = only(collector).tool_calls
    assert call.result.startswith("<Connection xxx")
    assert len(call.result) == 2000


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (("Where?",), "Where?"),
        (({"messages": [{"role": "user", "content": "Where?"}, {"role": "assistant", "content": "."}]},), "Where?"),
        (([{"role": "system", "content": "."}, {"role": "user", "content": "Where?"}],), "Where?"),
        (({"input": "Where?"},), "Where?"),
        (({"order": 7},), '{"order": 7}'),
        ((), ""),
    ],
)
def test_what_the_user_asked(collector: TraceCollector, given: tuple[Any, ...], expected: str):
    hook_into_agent(lambda *args: "a", collector).agent(*given)
    assert only(collector).user_query == expected


@dataclass
class Answer:
    output: str = "It is in Bonn."
    steps: list[str] = field(default_factory=list)


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        ("It is in Bonn.", "It is in Bonn."),
        (None, ""),
        ({"response": "It is in Bonn.", "cost": 3}, "It is in Bonn."),
        ({"output": {"text": "It is in Bonn."}}, "It is in Bonn."),
        (Answer(), "It is in Bonn."),
        (
            SimpleNamespace(choices=[SimpleNamespace(message=SimpleNamespace(content="It is in Bonn."))]),
            "It is in Bonn.",
        ),
        ({"swimlane": "Expedite", "priority": 1}, '{"swimlane": "Expedite", "priority": 1}'),
        (7, "7"),
    ],
)
def test_what_the_agent_answered(collector: TraceCollector, result: Any, expected: str):
    hook_into_agent(lambda query: result, collector).agent("q")
    assert only(collector).final_response == expected


@pytest.mark.parametrize(
    "reply",
    [
        SimpleNamespace(usage=SimpleNamespace(prompt_tokens=12, completion_tokens=5, total_tokens=17)),
        {"usage": {"prompt_tokens": 12, "completion_tokens": 5}},
        {"usage": {"input_tokens": 12, "output_tokens": 5}},
        SimpleNamespace(usage_metadata={"input_tokens": 12, "output_tokens": 5}),
        SimpleNamespace(usage_metadata=SimpleNamespace(prompt_token_count=12, candidates_token_count=5)),
        ("text", {"usage": {"prompt_tokens": 12, "completion_tokens": 5}}),
        {"tokens_in": 12, "tokens_out": 5},
    ],
)
def test_tokens_of_every_dialect(collector: TraceCollector, reply: Any):
    class Agent:
        def run(self, query: str) -> str:
            self.complete([])
            return "a"

        def complete(self, messages: list[Any]) -> Any:
            return reply

    agent = Agent()
    hook_into_agent(agent, collector)
    agent.run("q")
    trace = only(collector)
    assert (trace.total_tokens_in, trace.total_tokens_out, trace.llm_calls_count) == (12, 5, 1)


def test_costs(collector: TraceCollector):
    replies = [
        {"usage": {"prompt_tokens": 1, "completion_tokens": 1, "cost": 0.5}},
        SimpleNamespace(usage={"prompt_tokens": 1}, _hidden_params={"response_cost": 0.25}),
        {"usage": {"prompt_tokens": 1}, "total_cost": 1},
    ]

    class Agent:
        def run(self, query: str) -> None:
            for _ in range(3):
                self.complete()

        def complete(self) -> Any:
            return replies.pop()

    agent = Agent()
    hook_into_agent(agent, collector)
    agent.run("q")
    assert only(collector).total_cost == 1.75


class Completions:
    def create(self, messages: list[Any], stream: bool = False) -> Any:
        if messages == ["fail"]:
            raise ConnectionError("no model")
        chunks = [{"choices": [{"delta": {"content": "a"}}]}, {"choices": [], "usage": {"prompt_tokens": 12}}]
        return (chunk for chunk in chunks) if stream else {"usage": {"prompt_tokens": 12}}


def test_the_client_within_an_agent(collector: TraceCollector):
    class Agent:
        def __init__(self) -> None:
            self.client = SimpleNamespace(chat=SimpleNamespace(completions=Completions()))

        def ask(self, question: str) -> str:
            self.client.chat.completions.create([])
            list(self.client.chat.completions.create([], stream=True))
            with pytest.raises(ConnectionError):
                self.client.chat.completions.create(["fail"])
            return "a"

    agent = Agent()
    hook_into_agent(agent, collector, entry="ask", llm="client.chat.completions.create")
    agent.ask("q")
    Completions().create([])  # another one's
    trace = only(collector)
    assert (trace.total_tokens_in, trace.llm_calls_count) == (24, 3)


def test_a_call_within_a_call_is_counted_once(collector: TraceCollector):
    class Agent:
        def run(self, query: str) -> str:
            return self.complete()["text"]

        def complete(self) -> Any:
            return {**self.call_llm(), "text": "a"}

        def call_llm(self) -> Any:
            return {"usage": {"prompt_tokens": 12, "completion_tokens": 5}}

    agent = Agent()
    hook_into_agent(agent, collector)
    agent.run("q")
    assert (only(collector).total_tokens_in, only(collector).llm_calls_count) == (12, 1)


class FlowLike:
    """As ToolBoxV2's FlowAgent looks from outside: text without usage, and totals that all sessions share."""

    def __init__(self) -> None:
        self.total_tokens_in = self.total_tokens_out = self.total_llm_calls = 0
        self.total_cost_accumulated = 0.0

    async def a_run(self, query: str, session_id: str = "default", **kwargs: Any) -> str:
        size = int(query)
        text = await self.a_run_llm_completion([{"role": "user", "content": query}], size=size)
        await self.arun_function("search", query=query, limit=3)
        return text

    async def a_stream(self, query: str, session_id: str = "default") -> AsyncIterator[dict[str, Any]]:
        yield {"type": "reasoning", "chunk": "ask the carrier"}
        yield {"type": "tool_start", "name": "search"}
        await self.arun_function("search", query=query)
        yield {"type": "content", "chunk": "It is "}
        yield {"type": "content", "chunk": "in Bonn."}
        if query == "broken":
            yield {"type": "error", "error": "model is gone"}
        yield {"type": "done", "success": True, "final_answer": "It is in Bonn!"}

    async def arun_function(self, function_name: str, **kwargs: Any) -> str:
        return f"{function_name} done"

    async def a_run_llm_completion(self, messages: list[Any], size: int, again: bool = True, **kwargs: Any) -> str:
        await asyncio.sleep(0.001 * (size % 3))
        self.total_tokens_in += size
        self.total_tokens_out += 1
        self.total_cost_accumulated += size / 8
        if again and size % 2:  # as it does after running the tools that the model asked for
            return await self.a_run_llm_completion(messages, size=1000 * size, again=False)
        return "text"


def test_flow_agent_shares_its_counters_between_sessions(collector: TraceCollector):
    agent = FlowLike()
    hook_into_agent(agent, collector)

    async def everybody() -> None:
        await asyncio.gather(*(agent.a_run(str(n), session_id=f"s{n}") for n in range(1, 41)))

    asyncio.run(everybody())
    for trace in traces(collector):
        size = int(trace.user_query)
        expected = 1001 * size if size % 2 else size
        assert trace.session_id == f"s{size}"
        assert (trace.total_tokens_in, trace.total_cost) == (expected, expected / 8)
        assert trace.llm_calls_count == trace.total_tokens_out == 1 + size % 2
        assert [(call.tool_name, call.arguments) for call in trace.tool_calls] == [
            ("search", {"query": str(size), "limit": 3})
        ]


def test_the_events_of_a_flow_agents_stream(collector: TraceCollector):
    agent = FlowLike()
    hook_into_agent(agent, collector)

    async def consume(query: str) -> None:
        assert len([event async for event in agent.a_stream(query)]) > 4

    asyncio.run(consume("q"))
    asyncio.run(consume("broken"))
    fine, broken = traces(collector)
    assert (fine.final_response, fine.tasks_failed) == ("It is in Bonn!", [])
    assert [step.content for step in fine.reasoning_steps] == ["ask the carrier"]
    assert [call.result for call in fine.tool_calls] == ["search done"]
    assert broken.tasks_failed[0]["error"] == "model is gone"


def test_thoughts_and_tasks(collector: TraceCollector):
    class Agent:
        def run(self, query: str) -> str:
            self.think("about it")
            done = self.create_task("find the parcel")
            self.complete_task(done, "found")
            self.fail_task({"id": "t9", "type": "call", "description": "call the carrier"}, "nobody there")
            self.create_task(object())
            return "a"

        def think(self, about: str) -> str:
            return f"thought {about}"

        def create_task(self, description: Any) -> str:
            return "t1"

        def complete_task(self, task_id: str, result: str) -> None: ...

        def fail_task(self, task: dict[str, str], error: str) -> None: ...

    agent = Agent()
    hook_into_agent(agent, collector)
    agent.run("q")
    trace = only(collector)
    assert [(step.step_type, step.content) for step in trace.reasoning_steps] == [("think", "thought about it")]
    assert [(task["task_id"], task["description"]) for task in trace.tasks_created] == [("t1", "find the parcel")]
    assert [(task["task_id"], task["result"]) for task in trace.tasks_completed] == [("t1", "found")]
    assert [(task["task_id"], task["error"]) for task in trace.tasks_failed] == [("t9", "nobody there")]


class Plain:
    def __init__(self) -> None:
        self.tools: dict[str, Any] = {"add": add}
        self.answer = "plain"

    def run(self, query: str) -> str:
        return f"{self.answer} {self.tools['add'](1, 2)}"


class Heir(Plain):
    pass


class Callable:
    def __call__(self, query: str) -> str:
        return query


class Tight:
    __slots__ = ("answer",)

    def run(self, query: str) -> str:
        return query


@pytest.mark.parametrize("kind", [Plain, Heir, Callable, Tight])
def test_unhooking_restores_the_agent_exactly(collector: TraceCollector, kind: type):
    agent = kind()
    classes = {one: dict(vars(one)) for one in kind.__mro__[:-1]}
    own = dict(getattr(agent, "__dict__", {}))
    tools = dict(getattr(agent, "tools", {}))
    hook = hook_into_agent(agent, collector)
    assert type(agent) is kind
    (agent if kind is Callable else agent.run)("q")
    hook.unhook()
    hook.unhook()
    assert {one: dict(vars(one)) for one in kind.__mro__[:-1]} == classes
    assert dict(getattr(agent, "__dict__", {})) == own
    assert getattr(agent, "tools", {}) == tools
    (agent if kind is Callable else agent.run)("unobserved")
    assert [trace.user_query for trace in traces(collector)] == ["q"]


def test_hooking_twice_records_once_until_both_are_unhooked(collector: TraceCollector):
    agent = Plain()
    first, second = hook_into_agent(agent, collector), hook_into_agent(agent, collector)
    agent.run("one")
    first.unhook()
    agent.run("two")
    second.unhook()
    agent.run("three")
    assert [(trace.user_query, len(trace.tool_calls)) for trace in traces(collector)] == [("one", 1), ("two", 1)]
    assert vars(Plain)["run"].__qualname__ == "Plain.run"
    assert not hasattr(Plain.run, "__wrapped__")


def test_two_collectors_each_record_and_leave_in_any_order(collector: TraceCollector, collectors, tmp_path):
    other = collectors(data_dir=tmp_path / "other")
    before = vars(Plain)["run"]
    agent = Plain()
    first, second = hook_into_agent(agent, collector), hook_into_agent(agent, other)
    agent.run("both")
    first.unhook()
    agent.run("other alone")
    second.unhook()
    assert vars(Plain)["run"] is before
    assert agent.tools == {"add": add}
    assert [(trace.user_query, len(trace.tool_calls)) for trace in traces(collector)] == [("both", 1)]
    assert [(trace.user_query, len(trace.tool_calls)) for trace in traces(other)] == [("both", 1), ("other alone", 1)]


def test_other_objects_of_the_class_are_not_observed(collector: TraceCollector):
    agent, other, heir = Plain(), Plain(), Heir()
    with hook_into_agent(agent, collector):
        agent.run("observed")
        other.run("not observed")
        heir.run("neither")
    assert only(collector).user_query == "observed"


def test_copies_and_pickles_of_a_hooked_agent_are_agents_of_their_own(collector: TraceCollector):
    agent = Plain()
    with hook_into_agent(agent, collector):
        for twin in (copy.copy(agent), copy.deepcopy(agent)):
            twin.answer = "twin"
            assert twin.run("unobserved") == "twin 3"
        assert agent.run("observed") == "plain 3"
    callable_agent = Callable()
    with hook_into_agent(callable_agent, collector):
        assert pickle.loads(pickle.dumps(callable_agent))("unobserved") == "unobserved"
        callable_agent("observed too")
    assert [trace.user_query for trace in traces(collector)] == ["observed", "observed too"]


def test_an_agent_that_is_gone_leaves_nothing_behind(collector: TraceCollector):
    before = dict(vars(Plain))
    for _ in range(50):
        agent = Plain()
        hook_into_agent(agent, collector)
        agent.run("q")
        del agent
    assert dict(vars(Plain)) == before
    assert len(traces(collector)) == 50


def test_agents_may_be_modules_or_hold_functions(collector: TraceCollector):
    class Static:
        @staticmethod
        def run(query: str) -> str:
            return query

    for agent in (SimpleNamespace(run=lambda query: query), Static()):
        before = dict(vars(agent))
        with hook_into_agent(agent, collector):
            assert agent.run("q") == "q"
        assert vars(agent) == before
    assert len(traces(collector)) == 2


@pytest.mark.parametrize(
    ("agent", "names"),
    [
        (object(), {}),
        (Plain(), {"entry": "start"}),
        (Plain(), {"entry": "tools"}),
        (Plain(), {"llm": "client.create"}),
        (Plain(), {"tools": "nothing.there"}),
        (Plain(), {"tools": (add,)}),
    ],
)
def test_what_cannot_be_hooked_is_said_at_once_and_nothing_stays(collector: TraceCollector, agent: Any, names: Any):
    before = dict(vars(Plain))
    with pytest.raises(UsageError):
        hook_into_agent(agent, collector, **names)
    assert dict(vars(Plain)) == before


def test_a_failing_collector_does_not_touch_the_agent(
    collector: TraceCollector, monkeypatch: pytest.MonkeyPatch, warnings
):
    def broken(*args: object, **kwargs: object) -> None:
        raise RuntimeError("a bug of ours")

    agent = Plain()
    hook_into_agent(agent, collector)
    for name in ("add_tool_call", "open_trace", "run_of"):
        monkeypatch.setattr(collector, name, broken)
        assert [agent.run("q") for _ in range(3)] == ["plain 3"] * 3
        monkeypatch.undo()
    assert {text for text in warnings() if "belongs to no run" not in text} == {
        f"{doing} failed: RuntimeError; the agent goes on" for doing in ("begin", "end", "finish_trace")
    }
