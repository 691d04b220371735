"""Tools, and tools by name, with checked arguments."""

import inspect
import re
import types
from abc import ABC
from collections.abc import Callable, Iterator, Mapping, Sequence
from threading import Thread
from typing import Any, Literal, Self, TypeVar, Union, get_args, get_origin, get_type_hints

from rl.base.errors import UsageError
from rl.base.leaves import leaf_name
from rl.base.names import unknown_name


class ToolFailed(Exception):
    """What the agent is told when its call came to nothing; the episode goes on."""

    def __init__(self, reason: str, timed_out: bool = False) -> None:
        self.timed_out = timed_out
        super().__init__(reason)


class BaseTool(ABC):
    """A tool is a class with a ``name`` and a method ``run``, whose parameters have types. Its docstring says what the agent
    should know, with a section ``Args:`` for the parameters (Google's style)."""

    name: str
    run: Callable[..., str]
    """Raises ToolFailed."""
    aliases: tuple[str, ...] = ()
    """Other names that a call may use, where no tool has them."""
    schema: Mapping[str, Any] | None = None
    """The schema of a tool that brings its own, as ``schema_of`` makes it; None: it is read from ``run``."""
    seconds: float = 60.0
    """After which the agent is told that the tool did not answer. What hangs is left behind in its thread."""


_Kind = TypeVar("_Kind", bound=BaseTool)
_PYTHON = {"string": str, "integer": int, "number": (int, float), "boolean": bool, "object": dict, "array": list}
_TYPES = {str: "string", int: "integer", float: "number", bool: "boolean", dict: "object", list: "array"}
_ARGUMENT = re.compile(r"^\s*(\w+)(?:\s*\(.*?\))?:\s*(.+)\Z")


class ToolRegistry:
    """An agent's tools by name. Arguments are checked against the tool's schema before it runs."""

    def __init__(self, tools: Sequence[BaseTool]) -> None:
        """Raises UsageError for two tools of one name, and as ``schema_of``."""
        self._tools = {tool.name: tool for tool in tools}
        if len(self._tools) < len(tools):
            raise UsageError(f"two tools have the same name: {', '.join(tool.name for tool in tools)}")
        self._aliases = {alias: tool for tool in tools for alias in tool.aliases}
        self._schemas = {name: dict(tool.schema or schema_of(name, tool.run)) for name, tool in self._tools.items()}

    def __iter__(self) -> Iterator[str]:
        return iter(self._tools)

    def with_tools(self, tools: Sequence[BaseTool]) -> Self:
        """Another registry; a tool takes the place of one with its name. Raises as ``__init__``."""
        new_names = {tool.name for tool in tools}
        return type(self)([*(tool for name, tool in self._tools.items() if name not in new_names), *tools])

    def of_kind(self, kind: type[_Kind]) -> list[_Kind]:
        return [tool for tool in self._tools.values() if isinstance(tool, kind)]

    def find(self, name: str) -> BaseTool | None:
        """By its name or an alias."""
        return self._tools.get(name) or self._aliases.get(name)

    @property
    def schemas(self) -> list[dict[str, Any]]:
        """For a chat template or an API."""
        return list(self._schemas.values())

    def call(self, name: str, arguments: Mapping[str, Any]) -> str:
        """Raises ToolFailed, with a sentence for the agent, for whatever goes wrong."""
        tool = self.find(name)
        if tool is None:
            raise ToolFailed(unknown_name("tool", name, self._tools))
        self._check(tool, arguments)
        result = _in_time(tool, arguments)
        if isinstance(result, ToolFailed):
            raise result
        if isinstance(result, Exception):
            raise ToolFailed(f"{name} failed: {type(result).__name__}: {result}") from result
        return str(result)

    def _check(self, tool: BaseTool, arguments: Mapping[str, Any]) -> None:
        name = tool.name
        shape = self._schemas[name]["function"]["parameters"]
        if tool.schema is not None:
            if mistake := first_mistake(arguments, shape):
                raise ToolFailed(f"{name} cannot be called so: {mistake}")
            return
        known = shape["properties"]
        if stray := [key for key in arguments if key not in known]:
            raise ToolFailed(f"{name} has no argument {stray[0]!r}; it has: {', '.join(known)}")
        if missing := [key for key in shape["required"] if key not in arguments]:
            raise ToolFailed(f"{name} needs the argument {missing[0]}")
        for key, value in arguments.items():
            if not _fits(value, known[key]):
                choices = known[key].get("enum")
                right = f"one of {', '.join(map(repr, choices))}" if choices else f"of type {known[key]['type']}"
                raise ToolFailed(f"the argument {key} of {name} must be {right}, not {value!r}")


def _in_time(tool: BaseTool, arguments: Mapping[str, Any]) -> object:
    """What it returned or raised."""
    outcomes: list[object] = []

    def run() -> None:
        try:
            outcomes.append(tool.run(**arguments))
        except Exception as error:  # noqa: BLE001  somebody's tool
            outcomes.append(error)

    thread = Thread(target=run, daemon=True)
    thread.start()
    thread.join(tool.seconds)
    if outcomes:
        return outcomes[0]
    return ToolFailed(f"{tool.name} did not answer within {tool.seconds:g} seconds", timed_out=True)


def _fits(value: Any, schema: Mapping[str, Any]) -> bool:
    if value is None:
        return bool(schema.get("nullable"))
    if "enum" in schema:
        return value in schema["enum"]
    if isinstance(value, bool) and schema["type"] != "boolean":
        return False
    return isinstance(value, _PYTHON[schema["type"]])  # type: ignore[arg-type]


def schema_of(name: str, function: Callable[..., Any]) -> dict[str, Any]:
    """``{"type": "function", "function": {name, description, parameters}}``. Raises UsageError for a parameter without a
    type, or of a type that JSON has not."""
    about, _, rest = (inspect.getdoc(function) or "").partition("Args:")
    matches = [match for line in rest.partition("\n\n")[0].splitlines() if (match := _ARGUMENT.match(line))]
    arguments = {match[1]: match[2].strip() for match in matches}
    hints, parameters = get_type_hints(function), inspect.signature(function).parameters
    properties: dict[str, Any] = {}
    for parameter in parameters:
        if parameter not in hints:
            raise UsageError(f"tool {name}: its parameter {parameter} has no type")
        description = {"description": arguments[parameter]} if parameter in arguments else {}
        properties[parameter] = {**_type(name, parameter, hints[parameter]), **description}
    required = [parameter.name for parameter in parameters.values() if parameter.default is inspect.Parameter.empty]
    shape = {"type": "object", "properties": properties, "required": required}
    return {"type": "function", "function": {"name": name, "description": " ".join(about.split()), "parameters": shape}}


def _type(tool: str, parameter: str, hint: Any) -> dict[str, Any]:
    origin, inner = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        kinds = [kind for kind in inner if kind is not type(None)]
        if len(kinds) == 1:
            return {**_type(tool, parameter, kinds[0]), "nullable": True}
    elif origin is Literal:
        return {"type": _TYPES.get(type(inner[0]), "string"), "enum": list(inner)}
    elif origin is list and inner:
        return {"type": "array", "items": _type(tool, parameter, inner[0])}
    elif (plain := origin or hint) in _TYPES:
        return {"type": _TYPES[plain]}
    raise UsageError(f"tool {tool}: its parameter {parameter} has type {hint}, which JSON has not")


def first_mistake(arguments: Mapping[str, Any], schema: Mapping[str, Any]) -> str:
    """One sentence about arguments of a tool with its own schema; empty where they fit. A schema that is itself wrong says
    nothing of them. Nothing is fetched for a ``$ref`` that leads elsewhere."""
    validator_for, best_match = (
        leaf_name(f"jsonschema.{path}") for path in ("validators.validator_for", "exceptions.best_match")
    )
    try:
        validator = validator_for(schema)(schema, registry=leaf_name("referencing.Registry")())
        mistake = best_match(validator.iter_errors(dict(arguments)))
    except Exception:  # noqa: BLE001  whatever a schema from outside can break
        return ""
    if mistake is None:
        return ""
    location = ".".join(str(part) for part in mistake.absolute_path)
    return f"{f'the argument {location}' if location else 'the arguments'}: {mistake.message[:300]}"


def cut(text: str, most: int) -> str:
    left_out = len(text) - most
    return text if left_out <= 0 else f"{text[:most]}… ({left_out} more characters)"
