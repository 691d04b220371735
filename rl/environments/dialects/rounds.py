"""The turns of an assistant in a recorded conversation, each with what its tool calls brought."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rl.base.messages import requested_calls
from rl.base.records import Message
from rl.environments.contract import Action, ToolRequest

Messages = Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Round:
    action: Action
    results: tuple[str, ...] = ()
    """One for each call; empty where nothing came back any more."""


def rounds_of(messages: Messages, *, several: bool = True) -> list[Round | Message]:
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
        _append(rounds, _round(message, messages[position:end]))
        position = end
    return rounds if several else [part for whole in rounds for part in _one_call_each(whole)]


def _round(message: Mapping[str, Any], results: Messages) -> Round:
    calls = requested_calls(message)
    action = Action(message["content"], tuple(ToolRequest(call.name, call.arguments) for call in calls))
    if not results:
        return Round(action)
    # a result belongs to the call with its id, else to the first call that has none yet
    texts: dict[int, str] = {}
    for result in results:
        named = (number for number, call in enumerate(calls) if call.id and call.id == result.get("tool_call_id"))
        free = (number for number in range(len(calls)) if number not in texts)
        number = next(named, next(free, len(calls) - 1))
        texts[number] = "\n".join(filter(None, [texts.get(number, ""), result["content"]]))
    return Round(action, tuple(texts.get(number, "") for number in range(len(calls))))


def _append(rounds: list[Round | Message], new: Round) -> None:
    """What the assistant says after it has said something, without a word of anybody between, is the same turn."""
    last = rounds[-1] if rounds else None
    if isinstance(last, Round) and not last.action.calls:
        text = "\n\n".join(filter(None, [last.action.text, new.action.text]))
        rounds[-1] = replace(new, action=replace(new.action, text=text))
    else:
        rounds.append(new)


def _one_call_each(part: Round | Message) -> Iterator[Round | Message]:
    if not isinstance(part, Round) or len(part.action.calls) < 2:
        yield part
        return
    for number, call in enumerate(part.action.calls):
        text = "" if number else part.action.text
        yield Round(Action(text, (call,)), part.results[number : number + 1])
