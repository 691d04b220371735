"""Finds what there is to observe of an agent, and has it observed.

The names are those that agents use, FlowAgent's among them; what is called otherwise can be named."""

import inspect
from collections.abc import Callable, Iterable, Mapping, MutableMapping, MutableSequence, Sequence
from functools import partial
from typing import Any, cast

from rl.base.errors import UsageError
from rl.collect.capture.beginning import Beginning, DispatchedTools, LlmCalls, OneTool, Runs, Tasks, Thoughts
from rl.collect.capture.collector import TraceCollector
from rl.collect.capture.following import observe
from rl.collect.capture.observing import Counters
from rl.collect.capture.patching import InList, InMapping, Release, Slot, patch_attribute, patch_item
from rl.collect.capture.reading import TOOL, Parameters

ENTRIES = ("a_run", "a_stream", "arun", "run", "astream", "stream", "ainvoke", "invoke", "__call__")
DISPATCHERS = (
    *("arun_function", "run_function", "acall_tool", "call_tool", "arun_tool", "run_tool"),
    *("aexecute_tool", "execute_tool", "ainvoke_tool", "invoke_tool", "use_tool"),
)
TOOL_METHODS = ("__call__", "ainvoke", "invoke", "arun", "run", "aexecute", "execute")
"""Methods that run a tool which is an object."""
TOOL_FUNCTIONS = ("function", "func", "callable", "tool")
"""Keys that may hold the function of a tool which is a mapping."""
LLM_CALLS = (
    *("a_run_llm_completion", "run_llm_completion", "acompletion", "completion", "acomplete", "complete"),
    *("achat_completion", "chat_completion", "acall_llm", "call_llm"),
)
THOUGHTS = ("a_reason", "reason", "a_think", "think", "areflect", "reflect")
TASKS = {"create_task": "created", "add_task": "created", "complete_task": "completed", "fail_task": "failed"}

Names = str | Iterable[str]
Tools = Names | MutableMapping[str, Any] | MutableSequence[Any]


class Hook:
    """``agent`` is what to call from now on: the same object, or of a function its observed twin. ``unhook()`` puts
    everything back; used in ``with``, it does so at the end."""

    def __init__(self, agent: Any, releases: list[Release]) -> None:
        self.agent, self._releases = agent, releases

    def unhook(self) -> None:
        while self._releases:
            self._releases.pop()()

    def __enter__(self) -> Any:
        return self.agent

    def __exit__(self, *error: object) -> None:
        self.unhook()


def hook_into_agent(
    agent: Any,
    collector: TraceCollector,
    *,
    entry: Names | None = None,
    tools: Tools | None = None,
    llm: Names | None = None,
) -> Hook:
    """From now on each run of ``agent`` becomes a trace. Hooking twice records once.

    ``entry``, ``tools`` and ``llm`` name methods; ``client.chat.completions.create`` reaches into parts of the agent.
    ``tools`` may also be the mapping or list of callables itself. Raises UsageError when there is nothing to observe."""
    hooking = _Hooking(agent, collector)
    try:
        runs = hooking.hook_entry(entry)
        hooking.hook_tools(tools)
        hooking.hook_methods(llm, LLM_CALLS, lambda method, name: LlmCalls(collector, method, name, hooking.counters))
        hooking.hook_methods(None, THOUGHTS, partial(Thoughts, collector))
        hooking.hook_methods(None, TASKS, lambda method, name: Tasks(collector, method, name, TASKS[name]))
    except BaseException:
        Hook(agent, hooking.releases).unhook()
        raise
    return Hook(runs, hooking.releases)


class _Hooking:
    def __init__(self, agent: Any, collector: TraceCollector) -> None:
        self.agent, self.collector = agent, collector
        self.counters = Counters(agent)
        self.releases: list[Release] = []

    def hook_entry(self, names: Names | None) -> Any:
        """What to call from now on."""
        if names is None and (inspect.isroutine(self.agent) or isinstance(self.agent, partial)):
            runs = Runs(self.collector, self.agent, _name_of(self.agent), id(inspect.unwrap(self.agent)))
            self.releases.append(runs.stop)
            return observe(self.agent, runs.begin)
        if not self.hook_methods(
            names, ENTRIES, lambda method, name: Runs(self.collector, method, name, id(self.agent))
        ):
            raise UsageError(
                f"the {type(self.agent).__name__} has no method {', '.join(ENTRIES)}; name the one that runs it: entry="
            )
        return self.agent

    def hook_tools(self, tools: Tools | None) -> None:
        """Where none are named, the method that calls them, which reaches them all; else the agent's ``tools``."""
        if tools is None:
            if not self.hook_methods(None, DISPATCHERS, partial(DispatchedTools, self.collector)):
                collection = vars(self.agent).get("tools") if hasattr(self.agent, "__dict__") else None
                self._try(partial(self._hook_collection, collection if _is_collection(collection) else ()))
        elif isinstance(tools, str) or all(isinstance(tool, str) for tool in tools) and not isinstance(tools, Mapping):
            for owner, name in self._find_methods(cast(Names, tools)):
                attribute = getattr(owner, name)
                if _is_collection(attribute):
                    self._hook_collection(attribute)
                else:
                    takes_names = next(iter(Parameters(attribute).names), "") in TOOL
                    kind = DispatchedTools if name in DISPATCHERS or takes_names else OneTool
                    self._hook(owner, name, kind(self.collector, attribute, name))
        else:
            self._hook_collection(tools)

    def hook_methods(self, names: Names | None, known: Iterable[str], make: Callable[[Any, str], Beginning]) -> bool:
        """The methods named, which must be there; else those of the known ones that are."""
        if names is not None:
            for owner, name in self._find_methods(names):
                self._hook(owner, name, make(getattr(owner, name), name))
            return True
        there = [name for name in known if _has(self.agent, name)]
        done = [
            self._try(partial(self._hook, self.agent, name, make(getattr(self.agent, name), name))) for name in there
        ]
        return any(done)

    def _hook(self, owner: Any, name: str, beginning: Beginning) -> None:
        key = (self.collector, type(beginning))
        self.releases.append(patch_attribute(owner, name, key, beginning.begin))

    def _try(self, hook: Callable[[], None]) -> bool:
        """For what nobody named: an agent that cannot be observed in one place is observed in the others."""
        try:
            hook()
        except UsageError as error:
            self.collector.troubles.once(f"hooking:{error}", "not recorded: %s", error)
            return False
        return True

    def _find_methods(self, names: Names) -> list[tuple[Any, str]]:
        """Each as the object and the name of its method."""
        return [_resolve_method(self.agent, path) for path in ([names] if isinstance(names, str) else names)]

    def _hook_collection(self, tools: Any) -> None:
        if isinstance(tools, Mapping):
            for name, tool in list(tools.items()):
                slot = InMapping(tools, name) if isinstance(tools, MutableMapping) else None
                self._hook_tool(tool, str(name), slot)
        else:
            for tool in list(tools):
                self._hook_tool(
                    tool, _name_of(tool), InList(tools, tool) if isinstance(tools, MutableSequence) else None
                )

    def _hook_tool(self, tool: Any, name: str, slot: Slot | None) -> None:
        if isinstance(tool, Mapping):
            for key in TOOL_FUNCTIONS:
                if callable(tool.get(key)):
                    inner = InMapping(tool, key) if isinstance(tool, MutableMapping) else None
                    self._hook_tool(tool[key], str(tool.get("name") or name or _name_of(tool[key])), inner)
            return
        is_function = inspect.isroutine(tool) or isinstance(tool, (type, partial))
        statics = {name: inspect.getattr_static(type(tool), name, None) for name in TOOL_METHODS if not is_function}
        methods = [name for name, static in statics.items() if inspect.isfunction(static)]
        for method in methods:
            self._hook(tool, method, OneTool(self.collector, getattr(tool, method), name))
        if not methods and callable(tool):
            if slot is None:
                raise UsageError(
                    f"the tool {name} is in a collection that cannot be changed; name the method that calls it: tools="
                )
            beginning = OneTool(self.collector, tool, name)
            self.releases.append(patch_item(slot, (self.collector, OneTool), beginning.begin))


def _resolve_method(agent: Any, path: str) -> tuple[Any, str]:
    owner = agent
    *above, name = path.split(".")
    try:
        for part in above:
            owner = getattr(owner, part)
        getattr(owner, name)
    except AttributeError as error:
        raise UsageError(f"the {type(agent).__name__} has no {path}: {error}") from error
    return owner, name


def _is_collection(value: Any) -> bool:
    return isinstance(value, (Mapping, Sequence)) and not isinstance(value, (str, bytes))


def _has(agent: Any, name: str) -> bool:
    """Without asking for what a property would compute."""
    attribute = inspect.getattr_static(agent, name, None)
    return attribute is not None and not isinstance(attribute, property) and callable(getattr(agent, name, None))


def _name_of(tool: Any) -> str:
    for name in ("name", "__name__"):
        if isinstance(value := getattr(tool, name, None), str) and value:
            return value
    return _name_of(tool.func) if isinstance(tool, partial) else type(tool).__name__
