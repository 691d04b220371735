"""Bounds of JSON schemas."""

from typing import Any

import pytest

from rl.base.errors import UsageError
from rl.config.schemas import MOST_WAYS, BadSchema, Schemas, check_answer_schema

TEXT = {"type": "string"}
LOOSE = "^" + "[a-z]?" * 50 + "$"


def an_object(properties: dict[str, Any], required: list[str] | None = None) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties) if required is None else required}


def nested(levels: int, leaf: Any = TEXT) -> Any:
    return leaf if levels == 0 else an_object({"a": nested(levels - 1, leaf)})


def two_ways_at_each_level(levels: int) -> dict[str, Any]:
    """Few words, and as many ways as 2 to the power of the levels."""
    defs: dict[str, Any] = {"d0": {"type": "integer"}}
    for level in range(1, levels + 1):
        defs[f"d{level}"] = {"anyOf": [{"type": "array", "items": {"$ref": f"#/$defs/d{level - 1}"}}] * 2}
    return {"$defs": defs, "$ref": f"#/$defs/d{levels}"}


def an_expression() -> dict[str, Any]:
    """Refers to itself, and each choice is told from the others by its first property."""
    ref = {"$ref": "#/$defs/expression"}
    binary = [an_object({"op": {"const": op}, "left": ref, "right": ref}) for op in ("add", "multiply", "divide")]
    number = an_object({"op": {"enum": ["number"]}, "value": {"type": "number"}})
    return {"$defs": {"expression": {"anyOf": [*binary, number]}}, "$ref": "#/$defs/expression"}


HONEST = [
    True,
    {},
    TEXT,
    an_object({f"field_{number}": TEXT for number in range(300)}),
    an_object({f"field_{number}": {"anyOf": [TEXT, {"type": "null"}]} for number in range(100)}, []),
    nested(25),
    {"type": "array", "items": {"enum": [f"country {number}" for number in range(249)]}, "maxItems": 100_000},
    an_expression(),
    {"type": "object", "properties": {"pattern": TEXT, "enum": TEXT, "$ref": {"type": "integer"}, "minItems": TEXT}},
    {"type": ["string", "null"], "pattern": r"^\d{3}-\d{4}$", "maxLength": 1_000_000},
    {"anyOf": [TEXT, {"type": "number"}, {"type": "array", "items": {}}, {"type": "object"}, {"type": "boolean"}]},
    {"allOf": [an_object({"a": TEXT}), an_object({"b": TEXT})]},
    {"default": {"$comment": "data", "pattern": 3}, "examples": [{"minLength": -1}], "type": "object"},
    {"$ref": "#/definitions/a~1b", "definitions": {"a/b": {"type": "array", "items": {"$ref": "#"}}}},
    two_ways_at_each_level(6),
]


@pytest.mark.parametrize("schema", HONEST, ids=range(len(HONEST)))
def test_what_people_ask_for_passes_as_it_is(schema: Any):
    assert Schemas().check(schema, "x") == schema


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ({"enum": [f"v{number}" for number in range(MOST_WAYS + 1)]}, "ways to go on"),
        (an_object({f"p{number}": TEXT for number in range(MOST_WAYS)}, []), "ways to go on"),
        ({"anyOf": [TEXT] * (MOST_WAYS + 1)}, "ways to go on"),
        (two_ways_at_each_level(9), "ways to go on"),
        (
            {"$defs": {"a": {"anyOf": [{"type": "array", "items": {"$ref": "#/$defs/a"}}] * 2}}, "$ref": "#/$defs/a"},
            "ways to go on",
        ),
        (an_object({f"p{number}": TEXT for number in range(3000)}), "more than 2000 parts"),
        ({"enum": [[["x"] * 3000]]}, "more than 2000 parts"),
        (an_object({"n" * 70_000: TEXT}), "letters"),
        ({"const": "c" * 70_000, "title": "x"}, "letters"),
        ({"type": "array", "items": TEXT, "minItems": 10_000}, "minItems must be a whole number from 0 to 2000"),
        ({"type": "string", "maxLength": -1}, "maxLength must be a whole number"),
        ({"type": "string", "minLength": 1.5}, "minLength must be a whole number"),
        ({"type": "string", "pattern": 5}, "pattern must be text"),
        ({"$ref": "https://example.com/schema.json"}, "refers to nothing"),
        ({"$ref": "#/$defs/gone"}, "refers to nothing"),
        ([TEXT], "must be a JSON schema"),
        ("string", "must be a JSON schema"),
    ],
)
def test_what_would_hold_a_server_up_is_refused(schema: Any, words: str):
    with pytest.raises(BadSchema, match=words) as caught:
        Schemas().check(schema, "response_format.json_schema.schema")
    assert caught.value.param == "response_format.json_schema.schema"


def test_the_schema_of_an_agent_is_one_of_an_object_within_the_bounds():
    check_answer_schema({})
    check_answer_schema(an_object({"team": {"enum": ["cards", "cash"]}}))
    for wrong, words in [
        ([], "schema of an object"),
        ({"type": "string"}, "schema of an object"),
        ({"type": "object"}, "schema of an object"),
        (an_object({"a": {"enum": [f"v{number}" for number in range(300)]}}), "parts of the schema leave open"),
        (an_object({"a": {"type": "string", "pattern": LOOSE}}), "pattern that no server"),
        (an_object({"a": {"type": "string", "description": "x" * 60_000}}), "at most 60000 characters"),
        (an_object({"a": nested(600)}), "nested too deep"),
    ]:
        with pytest.raises(UsageError, match=words):
            check_answer_schema(wrong)


def test_the_schemas_of_a_request_share_the_bounds():
    schemas = Schemas()
    schemas.check({"enum": [f"v{number}" for number in range(200)]}, "tools[0]")
    with pytest.raises(BadSchema, match="together leave open"):
        schemas.check({"enum": [f"v{number}" for number in range(200)]}, "tools[1]")


@pytest.mark.parametrize("pattern", [r"^(?!\.)[a-z]+$", LOOSE, "^" + "a?" * 3000 + "$"], ids=["ahead", "loose", "long"])
def test_a_pattern_that_may_not_pass_is_left_out_and_the_rest_passes(pattern: str):
    schema = an_object({"mail": {"type": "string", "format": "email", "pattern": pattern}})
    schemas = Schemas()
    assert schemas.left_out == []
    passed = schemas.check({"$defs": {"a": {"items": {"anyOf": [schema]}}}}, "x")
    assert passed["$defs"]["a"]["items"]["anyOf"] == [an_object({"mail": {"type": "string", "format": "email"}})]
    assert "pattern" in schema["properties"]["mail"]
    assert schemas.left_out == ["pattern"]


@pytest.mark.parametrize("keyword", ["anyOf", "oneOf", "allOf"])
def test_choices_within_each_other_are_looked_at_once(keyword: str):
    """Each level looked at for each type would be 6 to the power of 28."""
    schema: Any = TEXT
    for _ in range(28):
        schema = {keyword: [schema]}
    assert Schemas().check(schema, "x") == schema
