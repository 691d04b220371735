"""A function's signature as the JSON schema that chat templates and OpenAI's API take for a tool."""

from __future__ import annotations

import inspect
import re
import types
from collections.abc import Callable
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from rl.base.errors import UsageError

_TYPES = {str: "string", int: "integer", float: "number", bool: "boolean", dict: "object", list: "array"}
_ARGUMENT = re.compile(r"^\s*(\w+)(?:\s*\(.*?\))?:\s*(.+)\Z")


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
