"""What a call of a model was given: a prompt, and what its agent has done since.

A model is told everything anew at each call, so the last call of a run knows the whole of it.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from rl.base.messages import RequestedCall, requested_calls, without_calls
from rl.base.records import Message
from rl.collect.otlp.messages import calls_as_data
from rl.collect.otlp.spans import Requested, fit


class History(NamedTuple):
    prompt: tuple[Message, ...]
    """Up to the last message of a user, in words alone."""
    steps: tuple[Message, ...] = ()
    """Behind it: turns that call tools, and their results."""
    whole: tuple[Message, ...] = ()
    """All of it in words alone."""
    is_partial: bool = False
    """There is no user's message: a server keeps the conversation, and only news were sent."""
    given: tuple[Message, ...] = ()
    """The prompt, with earlier calls of tools as data beside their words."""


def split(messages: Sequence[Message]) -> History:
    last = max((number for number, message in enumerate(messages) if message["role"] == "user"), default=-1)
    steps = messages[last + 1 :]
    whole = in_words(messages)
    if not any(message["role"] == "tool" for message in steps):
        return History(whole, (), whole, given=tuple(map(_beside_words, messages)))
    if last < 0:
        first = next(number for number, message in enumerate(messages) if message["role"] != "system")
        return History(whole, tuple(map(_step, messages[first:])), whole, is_partial=True, given=whole)
    given = tuple(map(_beside_words, messages[: last + 1]))
    return History(whole[: last + 1], tuple(map(_step, steps)), whole, given=given)


def turn(text: str, requested: Sequence[Requested]) -> Message:
    """What the model says now, with its calls as data."""
    made = Message(role="assistant", content=text)
    if requested:
        made["tool_calls"] = calls_as_data(requested)
    return made


def call_keys(messages: Iterable[Mapping[str, Any]]) -> list[str]:
    """What tells each call from others: its id, and where the client gives none, its words."""
    calls = [call for message in messages for call in requested_calls(message)]
    return [call.id or _in_words(call) for call in calls]


def answered_keys(messages: Sequence[Mapping[str, Any]]) -> set[str]:
    """As ``call_keys``, of the calls whose results are there; by their words too, as some clients tell an id only then."""
    results = {message["tool_call_id"] for message in messages if message.get("tool_call_id")}
    words = (_in_words(call) for message in messages for call in requested_calls(message))
    return {*call_keys(messages), *words, *results}


def _in_words(call: RequestedCall) -> str:
    return json.dumps([call.name, call.arguments], sort_keys=True)


def tool_calls(messages: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """Stored tool calls, with ``call_id``, of the calls whose results are there."""
    waiting: list[dict[str, Any]] = []
    for message in messages:
        for call in requested_calls(message):
            waiting.append({"tool_name": call.name, "arguments": fit(call.arguments), "call_id": call.id})
        if message["role"] == "tool" and waiting:
            named = (n for n, item in enumerate(waiting) if item["call_id"] == message.get("tool_call_id"))
            item = waiting.pop(next(named, 0))
            known = {"success": True, "duration_ms": None, "error": "", "timestamp": ""}
            yield {**item, "result": message["content"], **known}


def in_words(messages: Iterable[Message]) -> tuple[Message, ...]:
    """Full messages without what stands beside their words."""
    return tuple(Message(role=message["role"], content=message["content"]) for message in messages)


def _beside_words(message: Message) -> Message:
    """Calls whose words are not theirs, such as those of a tool with a nameless input, stay words alone."""
    calls = message.get("tool_calls")
    return message if not calls or without_calls(message) != message["content"] else in_words([message])[0]


def _step(message: Message) -> Message:
    return Message({**message, "content": fit(without_calls(message))})
