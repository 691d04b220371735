"""Tools for models that know nothing of tools: described in the instructions, results as a message of the user.

Few words, since small models read all of them at every task. Calls are written as in
``rl.environments.dialects.hermes``. Rounds are the turns of an assistant in a recorded conversation, each with what its
tool calls brought."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rl.base.messages import has_calls, requested_calls
from rl.base.records import Message
from rl.environments.contract import Action, ToolRequest
from rl.environments.dialects.hermes import SHAPE, write_calls

Chat = Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Round:
    action: Action
    results: tuple[str, ...] = ()
    """One for each call; empty where nothing came back any more."""
    thought: str = ""
    """What went before it."""


def rounds_of(messages: Chat, *, several: bool = True) -> list[Round | Message]:
    """Rounds of the assistant, and the messages of everybody else. ``several``: a turn may call more than one tool; else
    each call gets a turn. Raises ValueError for tool calls that cannot be read."""
    rounds: list[Round | Message] = []
    position = 0
    while position < len(messages):
        message, position = messages[position], position + 1
        if message["role"] != "assistant":
            rounds.append(Message(role=message["role"], content=message["content"]))
            continue
        end = position
        while end < len(messages) and messages[end]["role"] == "tool" and message.get("tool_calls"):
            end += 1
        new, last = _round(message, messages[position:end]), rounds[-1] if rounds else None
        if isinstance(last, Round) and not last.action.calls:  # without a word of anybody between it is the same turn
            text = "\n\n".join(filter(None, [last.action.text, new.action.text]))
            thought = "\n\n".join(filter(None, [last.thought, new.thought]))
            rounds[-1] = replace(new, action=replace(new.action, text=text), thought=thought)
        else:
            rounds.append(new)
        position = end
    return rounds if several else [part for whole in rounds for part in _one_call_each(whole)]


def _round(message: Mapping[str, Any], results: Chat) -> Round:
    calls = requested_calls(message)
    action = Action(message["content"], tuple(ToolRequest(call.name, call.arguments) for call in calls))
    thought = message.get("reasoning_content") or ""
    if not results:
        return Round(action, thought=thought)
    # a result belongs to the call with its id, else to the first call that has none yet
    texts: dict[int, str] = {}
    for result in results:
        named = (number for number, call in enumerate(calls) if call.id and call.id == result.get("tool_call_id"))
        free = (number for number in range(len(calls)) if number not in texts)
        number = next(named, next(free, len(calls) - 1))
        texts[number] = "\n".join(filter(None, [texts.get(number, ""), result["content"]]))
    return Round(action, tuple(texts.get(number, "") for number in range(len(calls))), thought)


def _one_call_each(part: Round | Message) -> Iterator[Round | Message]:
    if not isinstance(part, Round) or len(part.action.calls) < 2:
        yield part
        return
    for number, call in enumerate(part.action.calls):
        text, thought = ("", "") if number else (part.action.text, part.thought)
        yield Round(Action(text, (call,)), part.results[number : number + 1], thought)


RESULT, RESULT_END = "<tool_response>", "</tool_response>"


def write_chat(chat: Chat, tools: Chat) -> list[Mapping[str, Any]]:
    """The chat for a template that knows users and assistants alone. Raises ValueError for calls that cannot be read."""
    written: list[Mapping[str, Any]] = []
    for part in rounds_of(chat) if has_calls(chat) else chat:
        if isinstance(part, Round):
            written.append(turn(part.action))
            written += [results(list(map(guard_result, part.results)))] if part.results else []
        else:
            written.append(part)
    return with_tools(written, tools)


def with_tools(chat: Chat, tools: Chat) -> list[Mapping[str, Any]]:
    """The tools are described at the end of the instructions."""
    about = describe_tools(tools)
    if not about:
        return list(chat)
    if chat and chat[0]["role"] == "system":
        return [{"role": "system", "content": f"{chat[0]['content']}\n\n{about}"}, *chat[1:]]
    return [{"role": "system", "content": about}, *chat]


def turn(action: Action) -> dict[str, str]:
    content = "\n".join(part for part in (action.text, write_calls(action.calls)) if part)
    return {"role": "assistant", "content": content}


def results(texts: Sequence[str]) -> dict[str, str]:
    """One message: many templates refuse two of the user in a row."""
    return {"role": "user", "content": "\n".join(map(wrap_result, texts))}


def describe_tools(tools: Chat) -> str:
    """One line for each tool, as JSON, and a sentence on how to call them; empty without tools."""
    if not tools:
        return ""
    lines = [json.dumps(tool["function"], ensure_ascii=False, separators=(",", ":")) for tool in tools]
    return "\n".join(["Tools:", *lines, f"To call one, write {SHAPE}"])


def wrap_result(result: str) -> str:
    return f"{RESULT}\n{result}\n{RESULT_END}"


def guard_result(result: str) -> str:
    """A tool's result that cannot end itself and go on as something else."""
    return result.replace(RESULT_END[:-1], "< /tool_response")
