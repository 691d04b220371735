"""Tools by name, with checked arguments."""

from __future__ import annotations

import inspect
import re
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from threading import Thread
from typing import Any, Literal, Self, TypeVar, Union, get_args, get_origin, get_type_hints

from rl.base.errors import UsageError
from rl.base.leaves import leaf
from rl.base.names import unknown_name
from rl.environments.tools.base import BaseTool, ToolFailed

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
            if mistake := leaf("rl.environments.tools.json_schema").first_mistake(arguments, shape):
                raise ToolFailed(f"{name} cannot be called so: {mistake}")
            return
        known = shape["properties"]
        if stray := [key for key in arguments if key not in known]:
            raise ToolFailed(f"{name} has no argument {stray[0]!r}; it has: {', '.join(known)}")
        if missing := [key for key in shape["required"] if key not in arguments]:
            raise ToolFailed(f"{name} needs the argument {missing[0]}")
        for key, value in arguments.items():
            if not _fits(value, known[key]):
                raise ToolFailed(f"the argument {key} of {name} must be {_describe_type(known[key])}, not {value!r}")


def _in_time(tool: BaseTool, arguments: Mapping[str, Any]) -> object:
    """What it returned or raised."""
    outcomes: list[object] = []

    def run() -> None:
        try:
            outcomes.append(tool.run(**arguments))
        except Exception as error:
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


def _describe_type(schema: Mapping[str, Any]) -> str:
    return f"one of {', '.join(map(repr, schema['enum']))}" if "enum" in schema else f"of type {schema['type']}"


def schema_of(name: str, function: Callable[..., Any]) -> dict[str, Any]:
    """``{"type": "function", "function": {name, description, parameters}}``. Raises UsageError for a parameter without a
    type, or of a type that JSON has not."""
    about, arguments = _docstring(function)
    hints, parameters = get_type_hints(function), inspect.signature(function).parameters
    properties: dict[str, Any] = {}
    for parameter in parameters:
        if parameter not in hints:
            raise UsageError(f"tool {name}: its parameter {parameter} has no type")
        description = {"description": arguments[parameter]} if parameter in arguments else {}
        properties[parameter] = {**_type(name, parameter, hints[parameter]), **description}
    required = [parameter.name for parameter in parameters.values() if parameter.default is inspect.Parameter.empty]
    shape = {"type": "object", "properties": properties, "required": required}
    return {"type": "function", "function": {"name": name, "description": about, "parameters": shape}}


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


def _docstring(function: Callable[..., Any]) -> tuple[str, dict[str, str]]:
    """What stands before ``Args:``, as one line, and what stands there of each parameter."""
    about, _, rest = (inspect.getdoc(function) or "").partition("Args:")
    matches = [match for line in rest.partition("\n\n")[0].splitlines() if (match := _ARGUMENT.match(line))]
    return " ".join(about.split()), {match[1]: match[2].strip() for match in matches}
