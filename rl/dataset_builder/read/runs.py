"""What an agent did between a prompt and its last words, as chat messages with tool calls.

A stored trace has its tool calls one after another, and where that says too little the messages themselves
(``details["messages"]``) or the turns of an episode (``details["episode"]``)."""

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain
from typing import Any, NamedTuple

from rl.base.messages import as_data, requested_calls, without_calls, write_call
from rl.base.records import Message, ToolCall
from rl.collect.importers.chat import BESIDE, ROLES
from rl.collect.traces.records import reasoning_steps, tool_calls
from rl.environments.dialects import DIALECTS, dialect, without_thinking
from rl.environments.tasks.replay_fields import is_schema
from rl.environments.tools.recorded import arguments_of, schemas_of
from rl.models import Agent

CUT_CALLS = "run: the arguments of a tool call were cut off or cannot be read"
_THOUGHTS = ("reasoning", "thinking", "thought")
"""Kinds of steps of reasoning that are the model's own words before it speaks."""
NO_JSON = ("", "[]", "{}", "null")
"""JSON text of a column that holds nothing."""


class RunMessages(NamedTuple):
    prompt: tuple[Message, ...]
    steps: tuple[Message, ...] = ()


class CannotBeRead(Exception):
    """A run without one of its calls would be another run."""


def parse_details(column: str | None) -> dict[str, Any]:
    """``column``: a trace's details as JSON text. Empty for what is not an object."""
    details = json.loads(column) if column and column not in NO_JSON else {}
    return details if isinstance(details, dict) else {}


def read_run(
    prompt: tuple[Message, ...],
    response: str,
    calls: str | None,
    details: Mapping[str, Any],
    thoughts: str | None = None,
) -> RunMessages:
    """``calls`` and ``thoughts``: columns of a trace, as JSON text; no thoughts for an agent that does not think before it
    answers. Raises CannotBeRead."""
    return _with_thoughts(_read_run(prompt, response, calls, details, bool(thoughts)), thoughts)


def _read_run(
    prompt: tuple[Message, ...], response: str, calls: str | None, details: Mapping[str, Any], thinks: bool
) -> RunMessages:
    if details.get("messages") and (whole := _of_messages(details["messages"], prompt, response, thinks)):
        return whole
    if not calls or calls in NO_JSON:
        return RunMessages(prompt)
    recorded = list(tool_calls(json.loads(calls)))
    episode = details.get("episode")
    turns = episode.get("turns") if isinstance(episode, dict) else None
    steps = _of_turns(turns, recorded) if isinstance(turns, list) else _of_calls(_before(response, recorded))
    return RunMessages(prompt, tuple(steps))


def _with_thoughts(run: RunMessages, column: str | None) -> RunMessages:
    """What the agent thought before each of its turns, where the trace says that turn by turn, or once."""
    if not column or column in NO_JSON or any(step.get("reasoning_content") for step in run.steps):
        return run
    stored = (step for step in reasoning_steps(json.loads(column)) if step.step_type in _THOUGHTS)
    thoughts = [step.content for step in stored if step.content.strip()]
    turns = [number for number, step in enumerate(run.steps) if step["role"] == "assistant"]
    if thoughts and not turns:
        thoughts = ["\n\n".join(thoughts)]
    if len(thoughts) != len(turns) + 1:
        return run
    steps = [*run.steps, Message(role="assistant", content="")]
    for number, thought in zip([*turns, -1], thoughts, strict=True):
        steps[number] = Message({**steps[number], "reasoning_content": thought})
    return run._replace(steps=tuple(steps))


def called_with(call: ToolCall) -> dict[str, Any]:
    """What came without names stands under the one that tools with a single input have. Raises CannotBeRead."""
    arguments = arguments_of({"arguments": call.arguments})
    if arguments is not None:
        return arguments
    if isinstance(call.arguments, str) and call.arguments.lstrip().startswith(("{", "[")):
        raise CannotBeRead
    return {"input": call.arguments}


def result_text(call: ToolCall) -> str:
    """What the tool said; its error where it failed."""
    result = call.error if call.error and not call.success else call.result
    return result if isinstance(result, str) else "" if result is None else json.dumps(result, ensure_ascii=False)


# --- from tool calls ---------------------------------------------------------------------------------------------------


def _before(response: str, calls: Sequence[ToolCall]) -> Sequence[ToolCall]:
    """Without the last ones that stand in the response: they are what it says, and no turn of the model followed them."""
    words = response.rstrip()
    while calls and words.endswith(written := write_call(calls[-1].tool_name, calls[-1].arguments or {})):
        words, calls = words.removesuffix(written).rstrip(), calls[:-1]
    return calls


def _of_calls(calls: Sequence[ToolCall]) -> Iterator[Message]:
    for number, call in enumerate(calls, start=1):
        yield from _turn("", [(number, call)])


def _of_turns(turns: Sequence[Any], calls: Sequence[ToolCall]) -> Iterator[Message]:
    """All turns but the last, whose words are the answer."""
    for turn in turns[:-1]:
        own = [(number + 1, calls[number]) for number in turn["calls"] if number < len(calls)]
        yield from _turn(_words(turn["said"], len(own)), own)
        if not own and turn["observation"]:
            yield Message(role="user", content=turn["observation"])


def _turn(text: str, calls: Sequence[tuple[int, ToolCall]]) -> Iterator[Message]:
    turn = Message(role="assistant", content=text)
    if calls:
        turn["tool_calls"] = [as_data(call.tool_name, called_with(call), _id(number)) for number, call in calls]
    yield turn
    for number, call in calls:
        yield Message(role="tool", content=result_text(call), tool_call_id=_id(number), name=call.tool_name)


def _id(number: int) -> str:
    return f"call_{number}"


def _words(text: str, calls: int) -> str:
    """A turn's text without its calls, which a model writes in the way of its family."""
    spoken = without_thinking(text)
    if not calls:
        return spoken
    actions = (dialect(name).read_action(spoken) for name in DIALECTS)
    return next((action.text for action in actions if len(action.calls) == calls), "")


# --- from messages -----------------------------------------------------------------------------------------------------


def with_calls(prompt: Sequence[Message], details: Mapping[str, Any]) -> Sequence[Message]:
    """The prompt of a trace, with the calls of earlier turns as its details have them."""
    try:
        return _prompt_of(_chat(details.get("messages")), prompt) or prompt
    except ValueError:
        return prompt


def _of_messages(messages: object, prompt: Sequence[Message], response: str, thinks: bool) -> RunMessages | None:
    """None for messages that are not those of this trace: then its columns know better."""
    try:
        chat = _chat(messages, thinks)
    except ValueError:
        return None
    last = max((number for number, message in enumerate(chat) if message["role"] == "assistant"), default=-1)
    given = _prompt_of(chat, prompt)
    if given is None or last < len(given) or not _says(chat[last], response):
        return None
    thought = [Message({**chat[last], "content": ""})] if chat[last].get("reasoning_content") else []
    return RunMessages(given, (*chat[len(given) : last], *thought))


def _chat(messages: object, thinks: bool = False) -> list[Message]:
    """Raises ValueError."""
    return [_message(message, thinks) for message in messages] if isinstance(messages, list) else []


def _prompt_of(chat: Sequence[Message], prompt: Sequence[Message]) -> tuple[Message, ...] | None:
    """The beginning of the chat; None where it begins with another prompt."""
    given = tuple(chat[: len(prompt)])
    same = [[m["role"], m["content"]] for m in given] == [[m["role"], m["content"]] for m in prompt]
    return given if same else None


def _says(answer: Message, response: str) -> bool:
    """Calls stand in the words of a response."""
    return without_calls({**answer, "content": response}).strip() == answer["content"].strip()


def _message(message: object, thinks: bool) -> Message:
    """Raises ValueError."""
    if not isinstance(message, Mapping) or message.get("role") not in ROLES:
        raise ValueError("not a message")
    made = Message(role=ROLES[message["role"]], content=_text(message.get("content")))
    if calls := requested_calls(message):
        made["tool_calls"] = [
            as_data(call.name, call.arguments, call.id or _id(number)) for number, call in enumerate(calls, start=1)
        ]
    thoughts = (message.get(name) for name in BESIDE if thinks and made["role"] == "assistant")
    if thought := next((text for text in thoughts if isinstance(text, str) and text.strip()), ""):
        made["reasoning_content"] = thought
    for name in ("tool_call_id", "name"):
        if made["role"] == "tool" and isinstance(value := message.get(name), str):
            made[name] = value
    return made


def _text(content: object) -> str:
    """Text, or the texts among the parts. Raises ValueError."""
    if content is None or isinstance(content, str):
        return content or ""
    if not isinstance(content, list):
        raise ValueError("not text")
    parts = (part if isinstance(part, str) else part.get("text") for part in content if isinstance(part, (str, dict)))
    return "\n".join(part for part in parts if isinstance(part, str))


NEWEST = 500
"""Traces with tool calls whose tools are known as the agent's."""
Tools = tuple[dict[str, Any], ...]


class OfferedTools:
    """By the details of an answer, else those that the agent has called lately: a prompt that offers no tools would teach
    that they are called all the same, and one that offers what was called alone would give away what to call."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent

    def __call__(self, details: Mapping[str, Any]) -> Tools:
        return declared_tools(details.get("tools")) or self._of_agent

    @cached_property
    def _of_agent(self) -> Tools:
        traces = self._agent.traces.exclude(tool_calls=[]).order_by("-created_at")
        newest = list(traces.values_list("tool_calls", "details")[:NEWEST])
        declared = {
            tool["function"]["name"]: tool
            for _, details in reversed(newest)
            for tool in declared_tools(details.get("tools") if isinstance(details, dict) else None)
        }
        calls = chain.from_iterable(_readable(stored) for stored, _ in newest)
        inferred = {tool["function"]["name"]: tool for tool in schemas_of(calls)}
        tools = {**inferred, **declared}
        return tuple(tools[name] for name in sorted(tools))


def declared_tools(value: object) -> Tools:
    """Empty for what is not a list of schemas."""
    return tuple(value) if isinstance(value, list) and all(map(is_schema, value)) else ()


def _readable(stored: object) -> list[dict[str, Any]]:
    calls = []
    for call in tool_calls(stored):
        try:
            arguments = called_with(call)
        except CannotBeRead:
            continue
        calls.append(
            {"tool_name": call.tool_name, "arguments": arguments, "success": call.success, "error": call.error}
        )
    return calls
