"""The lines of files to learn from: when they come whether they have a known form, and when a job is made all that its
method needs. Which lines are wrong is told by their numbers."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from rl.base.messages import asks_nothing, is_function, requested_calls
from rl.collect.importers import chat
from rl.collect.importers.fields import Refused, obj
from rl.collect.importers.openai_preference import preference
from rl.collect.importers.rows import BUFFER, lines
from rl.collect.storable import pointer_to_unstorable, unstorable
from rl.collect.traces.imported import Rejected

MOST_TOLD: Final = 10
LEAST_ROWS, MOST_ROWS = 10, 50_000
"""A file to train on has so many."""
_PREFERENCE: Final = ("input", "preferred_output", "non_preferred_output")
_Check = Callable[[dict[str, Any]], object]
"""Raises Refused."""


class BadRows(ValueError):
    """Says which lines of a file are wrong, and why: the first of them."""


def check_form(path: Path) -> None:
    """Raises BadRows for lines that are neither a chat nor a preference, and OSError."""
    _check(path, _require_known_form, 1)


def check_rows(path: Path, method: str, least: int = LEAST_ROWS) -> int:
    """Counts the rows, each of which ``method`` can learn from: supervised, dpo or reinforcement. Raises BadRows
    and OSError."""
    return _check(path, _METHODS[method], least, MOST_ROWS)


def _check(path: Path, check: _Check, least: int, most: int | None = None) -> int:
    count, wrong, problems = 0, 0, []
    with path.open("rb", BUFFER) as file:
        for number, row in lines(file):
            count += 1
            if problem := _problem(row, check):
                wrong += 1
                problems += [f"Line {number}: {problem}"] if wrong <= MOST_TOLD else []
    if wrong > MOST_TOLD:
        problems.append(f"and {wrong - MOST_TOLD:,} more lines")
    if count < least:
        problems.append(f"the file has {count:,} rows, and must have at least {least:,}")
    if most is not None and count > most:
        problems.append(f"the file has {count:,} rows, and may have at most {most:,}")
    if problems:
        raise BadRows("; ".join(problems))
    return count


def _problem(row: Any, check: _Check) -> str:
    if isinstance(row, Rejected):
        return row.reason
    if not isinstance(row, dict):
        return "is not a JSON object"
    if reason := unstorable(row):
        return f"{pointer_to_unstorable(row)} {reason}".strip()
    try:
        check(row)
    except Refused as refused:
        return str(refused)
    return ""


def _require_known_form(row: dict[str, Any]) -> None:
    if "messages" in row:
        _messages(row["messages"], "messages")
    elif not row.keys() & set(_PREFERENCE):
        raise Refused("missing key 'messages' (a preference has 'input', 'preferred_output', 'non_preferred_output')")
    else:
        _require(row, _PREFERENCE)


def _check_supervised(row: dict[str, Any]) -> None:
    _require(row, ("messages",))
    messages = _messages(row["messages"], "messages")
    _each(messages, "messages")
    _answers(messages, "messages")
    if all(message.get("weight") == 0 for message in messages if message["role"] == "assistant"):
        raise Refused("every message of the assistant has the weight 0: there is nothing to learn")
    if asks_nothing(chat.talk(messages).prompt):
        raise Refused("nothing is asked: the text before the answer is blank")
    _tools(row)


def _check_dpo(row: dict[str, Any]) -> None:
    _require(row, _PREFERENCE)
    asked = obj(row, "input")
    before = _messages(asked.get("messages"), "input.messages")
    _each(before, "input.messages")
    if before[-1]["role"] == "assistant":
        raise Refused("the last of input.messages must not be the assistant's: its answers stand in the outputs")
    for name in _PREFERENCE[1:]:
        answer = _messages(row[name], name)
        _each(answer, name, ("assistant", "tool"))
        _answers(answer, name)
    preference(row, "")
    _tools(asked)


def _check_reinforcement(row: dict[str, Any]) -> None:
    _require(row, ("messages",))
    messages = _messages(row["messages"], "messages")
    _each(messages, "messages")
    if messages[-1]["role"] != "user":
        raise Refused("the last message must be the user's: the model answers it, and a grader looks at that")
    if asks_nothing(messages):
        raise Refused("nothing is asked: the last message is blank")
    _tools(row)


_METHODS: Final[Mapping[str, _Check]] = {
    "supervised": _check_supervised,
    "dpo": _check_dpo,
    "reinforcement": _check_reinforcement,
}


def _require(row: dict[str, Any], names: tuple[str, ...]) -> None:
    if missing := [name for name in names if name not in row]:
        raise Refused(f"missing key {', '.join(map(repr, missing))}")


def _messages(value: Any, where: str) -> list[dict[str, Any]]:
    if not isinstance(value, list) or not value or not all(isinstance(message, dict) for message in value):
        raise Refused(f"{where} must be a list of messages, each an object with role and content")
    return value


def _each(messages: list[dict[str, Any]], where: str, roles: tuple[str, ...] = tuple(chat.ROLES)) -> None:
    for index, message in enumerate(messages):
        at, role = f"{where}[{index}]", message.get("role")
        if role not in roles:
            raise Refused(f"{at}.role must be one of {', '.join(roles)}, not {role!r:.50}")
        calls = _calls(message, at)
        if not (_is_text(message.get("content")) or (calls and message.get("content") is None)):
            raise Refused(f"{at}.content must be text: there are no pictures, sounds or files to learn from here")
        if "weight" in message and not _is_weight(message):
            raise Refused(f"{at}.weight must be 0 or 1, and stand on a message of the assistant")


def _is_text(content: Any) -> bool:
    if not isinstance(content, list):
        return isinstance(content, str)
    parts = [part.get("text") for part in content if isinstance(part, dict) and part.get("type") == "text"]
    return len(parts) == len(content) and all(isinstance(text, str) for text in parts)


def _is_weight(message: dict[str, Any]) -> bool:
    weight = message["weight"]
    return message["role"] == "assistant" and not isinstance(weight, (bool, list, dict)) and weight in (0, 1)


def _calls(message: dict[str, Any], at: str) -> bool:
    """Whether it calls tools."""
    old = message.get("function_call")
    try:
        calls = requested_calls({"tool_calls": [{"function": old}]} if old else message)
    except ValueError as error:
        raise Refused(f"{at}.tool_calls cannot be read: {error}") from None
    if calls and message.get("role") != "assistant":
        raise Refused(f"{at}.tool_calls must stand on a message of the assistant")
    return bool(calls)


def _answers(messages: list[dict[str, Any]], where: str) -> None:
    last = messages[-1]
    if last["role"] != "assistant":
        raise Refused(f"the last of {where} must be the assistant's")
    content = last.get("content")
    text = content if isinstance(content, str) else "".join(part["text"] for part in content or ())
    if not (text.strip() or last.get("tool_calls") or last.get("function_call")):
        raise Refused(f"the last of {where} says nothing")


def _tools(row: dict[str, Any]) -> None:
    tools = row.get("tools")
    if tools is not None and not (isinstance(tools, list) and all(map(is_function, tools))):
        raise Refused("tools must be a list of functions, each {'type': 'function', 'function': {'name': …}}")
