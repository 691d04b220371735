"""What a part of a task may be, and what is wrong with a task of the environment replay as its file has it. Nothing here
raises."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from rl.base.errors import UsageError
from rl.base.leaves import leaf
from rl.environments.tools.recorded import arguments_of


class FieldProblem(NamedTuple):
    field: str
    """As a person finds it, ``field 'timeout' of test 2``; empty where the whole line is wrong."""
    what: str


class FieldRule(NamedTuple):
    check: Callable[[Any], str]
    """What is wrong with a value, empty when nothing is. Null is asked about only where the field is required."""
    required: bool = False


def problems(
    row: Any, fields: Mapping[str, FieldRule], of: str = "", *, others: bool = False
) -> Iterator[FieldProblem]:
    """``of``: what the row is a part of the line; the line itself when empty. ``others``: other fields may be there, and be
    anything."""
    if not isinstance(row, dict):
        yield FieldProblem(of, f"must be a JSON object, not {json_kind(row)}")
        return
    for name in row if not others else ():
        if name not in fields:
            what = f"unknown; known: {', '.join(fields)} (what is yours belongs in metadata)"
            yield FieldProblem(describe_field(name, of), what)
    for name, field in fields.items():
        if what := mistake(row, name, field):
            yield FieldProblem(describe_field(name, of), what)


def mistake(row: Mapping[str, Any], name: str, field: FieldRule) -> str:
    if name not in row:
        return "is missing" if field.required else ""
    return "" if row[name] is None and not field.required else field.check(row[name])


def describe_field(name: str, of: str) -> str:
    return f"field {name!r} of {of}" if of else f"field {name!r}"


def text(value: Any) -> str:
    return "" if isinstance(value, str) else f"must be text, not {json_kind(value)}"


def words(value: Any) -> str:
    return text(value) or ("" if value.strip() else "must not be empty")


def an_object(value: Any) -> str:
    return "" if isinstance(value, dict) else f"must be an object, not {json_kind(value)}"


def anything(_value: Any) -> str:
    return ""


def texts(value: Any) -> str:
    if not isinstance(value, list):
        return f"must be a list of texts, not {json_kind(value)}"
    wrong = next(
        (f"number {at} is {json_kind(entry)}" for at, entry in enumerate(value, 1) if not isinstance(entry, str)), ""
    )
    return f"must be a list of texts, but {wrong}" if wrong else ""


def json_kind(value: Any) -> str:
    """In the words of JSON."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    known = ((str, "text"), (list, "a list"), (dict, "an object"))
    return next((word for kind, word in known if isinstance(value, kind)), "a number")


ROLES = ("system", "user", "assistant", "tool")
_ENVIRONMENTS = "rl.environments"  # which needs this module
_NO_JUDGES = ("replay", "program")
"""Environments that cannot say what an answer is worth that was given elsewhere."""


def replay_problems(row: Any) -> Iterator[FieldProblem]:
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


def _verdict_problems(row: Mapping[str, Any]) -> Iterator[FieldProblem]:
    """Problems of the fields that tell how good an answer is."""
    name, task = row.get("environment"), row.get("task")
    if bool(name) == bool(row.get("accepted")):
        yield FieldProblem("", "must have either an environment with its task, or accepted answers")
    if not isinstance(name, str) or not name or _environment(name):
        return
    if task is None:
        yield FieldProblem("field 'task'", "is missing: what the environment judges answers by")
        return
    kind = leaf(_ENVIRONMENTS).environment_class(name).tasks
    for problem in kind.problems(task):
        yield FieldProblem(f"field 'task', {problem.field}".rstrip(", "), problem.what)
    options = row["options"] if isinstance(row.get("options"), dict) else {}
    try:
        leaf(f"{_ENVIRONMENTS}.settings").EnvironmentSettings(name, options).check()
    except UsageError as error:
        yield FieldProblem("field 'options'", str(error))


def _environment(value: Any) -> str:
    """A file of tasks may not name code of its own choice."""
    if wrong := text(value):
        return wrong
    known = [name for name in leaf(_ENVIRONMENTS).ENVIRONMENTS if name not in _NO_JUDGES]
    return "" if value in known else f"must be one of {', '.join(known)}, not {value!r:.50}"


def _list(value: Any, what: str = "") -> str:
    """What is wrong with it as a whole."""
    return "" if isinstance(value, list) else f"must be a list{f' of {what}' if what else ''}, not {json_kind(value)}"


def _role(value: Any) -> str:
    return "" if value in ROLES else f"must be one of {', '.join(ROLES)}, not {value!r:.50}"


def _messages(value: Any) -> str:
    if wrong := _list(value, "messages"):
        return wrong
    asks = any(isinstance(message, dict) and message.get("role") == "user" for message in value)
    return "" if asks else "must have a message of the user"


def _arguments(value: Any) -> str:
    if arguments_of({"arguments": value}) is not None:
        return ""
    return f"must be an object, or its JSON as text, not {'other text' if isinstance(value, str) else json_kind(value)}"


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


REPLAY_FIELDS: Mapping[str, FieldRule] = {
    "task_id": FieldRule(words, required=True),
    "prompt": FieldRule(_messages, required=True),
    "recorded": FieldRule(
        lambda value: _list(value, "calls") or ("" if value else "must have at least one call"), required=True
    ),
    "tools": FieldRule(_list),
    "environment": FieldRule(_environment),
    "task": FieldRule(an_object),
    "options": FieldRule(an_object),
    "accepted": FieldRule(_answers),
    "solution": FieldRule(_solution),
    "metadata": FieldRule(an_object),
}
CALL_FIELDS: Mapping[str, FieldRule] = {
    "tool_name": FieldRule(words, required=True),
    "arguments": FieldRule(_arguments),
    "result": FieldRule(anything),
    "success": FieldRule(
        lambda value: "" if isinstance(value, bool) else f"must be true or false, not {json_kind(value)}"
    ),
    "error": FieldRule(text),
    "duration_ms": FieldRule(anything),
    "timestamp": FieldRule(anything),
}
REPLAY_PARTS: Mapping[str, tuple[str, Mapping[str, FieldRule]]] = {
    "prompt": ("message", {"role": FieldRule(_role, required=True), "content": FieldRule(text, required=True)}),
    "recorded": ("call", CALL_FIELDS),
    "tools": ("tool", {"type": FieldRule(anything), "function": FieldRule(_function, required=True)}),
}
"""Field to what its items are called, and their fields."""
