"""Whole runs in rows: what an agent did before its last words stands before them, tool calls and results as messages."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from rl.base.messages import requested_calls, without_calls
from rl.base.records import Message

Steps = Sequence[Message]
"""From behind the prompt to the last words of the agent, these excluded. The last may be what it thought before these: a
message without content."""


def prompt_messages(prompt: Iterable[Message]) -> list[Message]:
    """A prompt as rows have it: where earlier turns have their tool calls as data, their words say the rest alone."""
    return [
        Message({**message, "content": without_calls(message)}) if message.get("tool_calls") else message
        for message in prompt
    ]


def answer_messages(text: str, steps: Steps = ()) -> list[Message]:
    if steps and is_thought(steps[-1]):
        return [*steps[:-1], Message({**steps[-1], "content": text})]
    return [*steps, Message(role="assistant", content=text)]


def is_thought(message: Message) -> bool:
    return bool(message.get("reasoning_content")) and not (message["content"] or message.get("tool_calls"))


def without_thought(steps: Steps) -> tuple[Message, ...]:
    """Nobody thought this before words that somebody else wrote in the place of the agent's."""
    return tuple(steps[:-1] if steps and is_thought(steps[-1]) else steps)


def as_answer_messages(answer: Any) -> Any:
    """A text stands for one message; anything else is given back as it is."""
    return answer_messages(answer) if isinstance(answer, str) else answer


def answer_key(text: str, steps: Steps = ()) -> str:
    """Equal for answers whose agent did and said the same. What tools returned does not count, nor
    thoughts, nor space around texts."""
    if not steps:  # nearly always
        return text.strip()
    acts = [_act(message) for message in steps if message["role"] == "assistant" and not is_thought(message)]
    return "\0".join([text.strip(), *acts])


def tools_column(tools: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    offered = list(tools)
    return {"tools": offered} if offered else {}


class Contrast(NamedTuple):
    """Two ways to go on after a prompt."""

    prompt: list[Message]
    chosen: list[Message]
    rejected: list[Message]


def apart(prompt: Steps, chosen: Steps, rejected: Steps) -> Contrast:
    """The prompt is all that both have in common up to where the agent speaks for the last time before they differ."""
    shared = 0
    for number, (first, second) in enumerate(zip(chosen[:-1], rejected[:-1], strict=False), start=1):
        if first != second:
            break
        if chosen[number]["role"] == rejected[number]["role"] == "assistant":
            shared = number
    return Contrast([*prompt, *chosen[:shared]], list(chosen[shared:]), list(rejected[shared:]))


def _act(message: Message) -> str:
    calls = [[call.name, call.arguments] for call in requested_calls(message)]
    return json.dumps([message["content"].strip(), calls], ensure_ascii=False, sort_keys=True)


_MARK = re.compile(r"^<\|(system|user|assistant)\|>[ \t]*\n?", re.MULTILINE)


def messages_of(prompt: str) -> list[Message]:
    """A text that begins with a mark as its messages, without those that are empty, such as the answer that is to come; any
    other text as one message of the user."""
    if not _MARK.match(prompt.lstrip()):
        return [Message(role="user", content=prompt)]
    _, *parts = _MARK.split(prompt.lstrip())
    spoken = zip(parts[::2], parts[1::2], strict=True)
    return [Message(role=role, content=text.strip()) for role, text in spoken if text.strip()]
