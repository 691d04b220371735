"""What is wrong with a task of the environment replay as its file has it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rl.base.errors import UsageError
from rl.base.leaves import leaf
from rl.environments.tasks.fields import Field, Problem, an_object, anything, json_kind, problems, text, texts, words
from rl.environments.tools.recorded import arguments_of

ROLES = ("system", "user", "assistant", "tool")
_ENVIRONMENTS = "rl.environments"  # which needs this module
_NO_JUDGES = ("replay", "program")
"""Environments that cannot say what an answer is worth that was given elsewhere."""


def replay_problems(row: Any) -> Iterator[Problem]:
    yield from problems(row, REPLAY_FIELDS)
    if not isinstance(row, dict):
        return
    for name, (part, fields) in REPLAY_PARTS.items():
        values = row.get(name)
        for number, value in enumerate(values if isinstance(values, list) else (), start=1):
            yield from problems(value, fields, f"{part} {number}")
    yield from _verdict_problems(row)


def is_schema(value: Any) -> bool:
    """Whether it is the schema of a tool."""
    return not any(problems(value, REPLAY_PARTS["tools"][1]))


def _verdict_problems(row: Mapping[str, Any]) -> Iterator[Problem]:
    """Problems of the fields that tell how good an answer is."""
    name, task = row.get("environment"), row.get("task")
    if bool(name) == bool(row.get("accepted")):
        yield Problem("", "must have either an environment with its task, or accepted answers")
    if not isinstance(name, str) or not name or _environment(name):
        return
    if task is None:
        yield Problem("field 'task'", "is missing: what the environment judges answers by")
        return
    kind = leaf(_ENVIRONMENTS).environment_class(name).tasks
    yield from (Problem(f"field 'task', {problem.field}".rstrip(", "), problem.what) for problem in kind.problems(task))
    options = row.get("options")
    try:
        leaf(f"{_ENVIRONMENTS}.settings").EnvironmentSettings(
            name, options if isinstance(options, dict) else {}
        ).check()
    except UsageError as error:
        yield Problem("field 'options'", str(error))


def _environment(value: Any) -> str:
    """A file of tasks may not name code of its own choice."""
    if wrong := text(value):
        return wrong
    known = [name for name in leaf(_ENVIRONMENTS).ENVIRONMENTS if name not in _NO_JUDGES]
    return "" if value in known else f"must be one of {', '.join(known)}, not {value!r:.50}"


def _calls(value: Any) -> str:
    """What is wrong with the list as a whole."""
    if not isinstance(value, list):
        return f"must be a list of calls, not {json_kind(value)}"
    return "" if value else "must have at least one call"


def _messages(value: Any) -> str:
    if not isinstance(value, list):
        return f"must be a list of messages, not {json_kind(value)}"
    asks = any(isinstance(message, dict) and message.get("role") == "user" for message in value)
    return "" if asks else "must have a message of the user"


def _role(value: Any) -> str:
    return "" if value in ROLES else f"must be one of {', '.join(ROLES)}, not {value!r:.50}"


def _objects(value: Any) -> str:
    return "" if isinstance(value, list) else f"must be a list, not {json_kind(value)}"


def _arguments(value: Any) -> str:
    if arguments_of({"arguments": value}) is not None:
        return ""
    return f"must be an object, or its JSON as text, not {'other text' if isinstance(value, str) else json_kind(value)}"


def _truth(value: Any) -> str:
    return "" if isinstance(value, bool) else f"must be true or false, not {json_kind(value)}"


def _function(value: Any) -> str:
    if not isinstance(value, dict):
        return an_object(value)
    right = isinstance(value.get("name"), str) and value["name"] and isinstance(value.get("parameters"), dict)
    return "" if right else "must have a name and, as an object, parameters"


def _answers(value: Any) -> str:
    if wrong := texts(value):
        return wrong
    return "" if all(text.strip() for text in value) else "must not have an empty answer"


def _solution(value: Any) -> str:
    if not isinstance(value, list) or not value or not isinstance(value[-1], str):
        return "must be a list that ends with the answer, a text"
    for number, turn in enumerate(value[:-1], start=1):
        if not (isinstance(turn, list) and turn and not any(any(problems(call, CALL_FIELDS)) for call in turn)):
            return f"must have lists of calls before the answer, but number {number} is not one"
    return ""


REPLAY_FIELDS: Mapping[str, Field] = {
    "task_id": Field(words, required=True),
    "prompt": Field(_messages, required=True),
    "recorded": Field(_calls, required=True),
    "tools": Field(_objects),
    "environment": Field(_environment),
    "task": Field(an_object),
    "options": Field(an_object),
    "accepted": Field(_answers),
    "solution": Field(_solution),
    "metadata": Field(an_object),
}
CALL_FIELDS: Mapping[str, Field] = {
    "tool_name": Field(words, required=True),
    "arguments": Field(_arguments),
    "result": Field(anything),
    "success": Field(_truth),
    "error": Field(text),
    "duration_ms": Field(anything),
    "timestamp": Field(anything),
}
REPLAY_PARTS: Mapping[str, tuple[str, Mapping[str, Field]]] = {
    "prompt": ("message", {"role": Field(_role, required=True), "content": Field(text, required=True)}),
    "recorded": ("call", CALL_FIELDS),
    "tools": ("tool", {"type": Field(anything), "function": Field(_function, required=True)}),
}
"""Field to what its items are called, and their fields."""
