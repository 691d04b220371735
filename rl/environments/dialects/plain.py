"""Tools for models that know nothing of tools: described in the instructions, results as a message of the user.

Few words, since small models read all of them at every task. Calls are written as in ``rl.environments.dialects.hermes``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from rl.base.messages import has_calls
from rl.environments.contract import Action
from rl.environments.dialects.hermes import SHAPE, write_calls
from rl.environments.dialects.rounds import Round, rounds_of

RESULT, RESULT_END = "<tool_response>", "</tool_response>"
Chat = Sequence[Mapping[str, Any]]


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


def describe_tools(tools: Sequence[Mapping[str, Any]]) -> str:
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
