"""Requests to the gateway whose fields are slow to follow, or ask for too much."""

from collections.abc import Iterator
from typing import Any


def questions() -> Iterator[tuple[str, dict[str, Any]]]:
    deep: dict[str, Any] = {"type": "string"}
    for _ in range(400):
        deep = {"type": "object", "properties": {"a": deep}, "required": ["a"]}
    schemas: dict[str, dict[str, Any]] = {
        "a long pattern": {"type": "string", "pattern": "^" + "(a|b?)*" * 900 + "$"},
        "a huge repetition": {"type": "string", "pattern": "^(a{0,1000}){0,1000}$"},
        "many items": {"type": "array", "items": {"type": "integer"}, "minItems": 100_000, "maxItems": 10_000_000},
        "a deep schema": deep,
        "a large enum": {"enum": [str(number) * 9 for number in range(60_000)]},
        "a schema that is its own": {"$ref": "#"},
    }
    for name, schema in schemas.items():
        yield name, {"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}}
        function = {"name": "f", "parameters": {"type": "object", "properties": {"a": schema}}}
        choice = {"type": "function", "function": {"name": "f"}}
        yield f"{name} of a tool", {"tools": [{"type": "function", "function": function}], "tool_choice": choice}
    yield "a grammar", {"grammar": "root ::= " + "(" * 3_000 + '"a"' + ")" * 3_000}
    yield "an ambiguous grammar", {"grammar": 'root ::= a\na ::= a a | "x" | ""'}
    yield "endless tokens", {"max_tokens": 10**8, "ignore_eos": True}
    yield "a thousand answers", {"n": 1000}
    yield "many stops", {"stop": ["x" * 10_000] * 200}
    yield "a large bias", {"logit_bias": {str(number): 1 for number in range(50_000)}}
    yield "unknown fields", {f"field{number}": "x" for number in range(10_000)}
    yield "many tools", {"tools": [{"type": "function", "function": {"name": f"f{number}"}} for number in range(5_000)]}
