"""Every call of the API with a body that it takes, from its own description."""

import re
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from drf_spectacular.generators import SchemaGenerator

METHODS = ("get", "post", "put", "patch", "delete")


LEFT_OUT: Final = object()
"""What a field is that may not stand beside another one."""


class Call(NamedTuple):
    method: str
    path: str
    """With what the names in braces stand for."""
    body: Any
    """None: it takes none."""
    parameters: tuple[str, ...]
    """Of the query."""
    arguments: tuple[str, ...]
    """Texts of the path, as they are written in braces."""
    template: str
    items: bool
    """The body is a list of what another call takes alone."""


def calls(known: dict[str, Any]) -> Iterator[Call]:
    """``known``: by the name of a field or of an argument, what is there under it; ``number``: for all numbers in paths. A
    call whose body may have several shapes comes once for each."""
    document = SchemaGenerator().get_schema(request=None, public=True)
    schemas = document["components"]["schemas"]
    for template, operations in document["paths"].items():
        for method in METHODS:
            if method not in operations:
                continue
            described = operations[method].get("parameters", [])
            query = tuple(each["name"] for each in described if each["in"] == "query")
            texts = tuple(
                each["name"] for each in described if each["in"] == "path" and each["schema"].get("type") == "string"
            )
            numbers = {each["name"]: known["number"] for each in described if each["schema"].get("type") == "integer"}
            path = re.sub(r"\{(\w+)\}", lambda name, values={**known, **numbers}: str(values[name[1]]), template)
            content = operations[method].get("requestBody", {}).get("content", {})
            schema = content.get("application/json", {}).get("schema")
            for body in _shapes(schema, schemas, known) if schema else [None]:
                yield Call(method, path, body, query, texts, template, isinstance(body, list))


def _shapes(schema: dict[str, Any], schemas: dict[str, Any], known: dict[str, Any]) -> list[Any]:
    schema = _resolved(schema, schemas)
    return [_example(each, schemas, known) for each in schema.get("oneOf", [schema])]


def _resolved(schema: dict[str, Any], schemas: dict[str, Any]) -> dict[str, Any]:
    for key in ("allOf", "anyOf"):
        schema = schema[key][0] if key in schema else schema
    return _resolved(schemas[schema["$ref"].rpartition("/")[2]], schemas) if "$ref" in schema else schema


def _example(schema: dict[str, Any], schemas: dict[str, Any], known: dict[str, Any], name: str = "") -> Any:
    """A value with every property that there is."""
    schema = _resolved(schema, schemas)
    if name in known:
        return known[name]
    if "oneOf" in schema:
        return _example(schema["oneOf"][0], schemas, known, name)
    if "enum" in schema:
        return schema["enum"][0]
    if "const" in schema:
        return schema["const"]
    kind = schema.get("type", "object")
    match kind if isinstance(kind, str) else kind[0]:
        case "object":
            properties = schema.get("properties", {"a": {"type": "string"}}).items()
            kept = ((name, each) for name, each in properties if known.get(name) is not LEFT_OUT)
            return {name: _example(each, schemas, known, name) for name, each in kept}
        case "array":
            return [_example(schema["items"], schemas, known)]
        case "integer" | "number":
            return schema.get("minimum", 1)
        case "boolean":
            return False
    return "2026-01-01T00:00:00Z" if schema.get("format") == "date-time" else "text"
