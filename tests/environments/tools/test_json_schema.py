from __future__ import annotations

from typing import Any

import pytest

from rl.environments.tools.json_schema import first_mistake

SCHEMA = {
    "type": "object",
    "required": ["order"],
    "properties": {
        "order": {"$ref": "#/$defs/Order"},
        "way": {"anyOf": [{"enum": ["air", "sea"]}, {"type": "null"}]},
        "anything": {},
    },
    "$defs": {"Order": {"type": "object", "properties": {"pieces": {"type": "integer", "minimum": 1}}}},
    "additionalProperties": False,
}


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"order": {"pieces": 2}, "way": None, "anything": [1]}, ""),
        ({}, "the arguments: 'order' is a required property"),
        ({"order": {"pieces": 0}}, "the argument order.pieces: 0 is less than the minimum of 1"),
        ({"order": "tea"}, "the argument order: 'tea' is not of type 'object'"),
        ({"order": {}, "way": "rail"}, "the argument way: 'rail'"),
        ({"order": {}, "wai": "sea"}, "'wai' was unexpected"),
    ],
    ids=["fits", "missing", "nested", "type", "choice", "stray"],
)
def test_the_first_mistake_is_one_sentence(arguments: dict[str, Any], told: str):
    found = first_mistake(arguments, SCHEMA)
    assert told in found
    assert bool(told) == bool(found)


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "no such type"},
        {"$ref": "#/$defs/missing"},
        {"$ref": "http://127.0.0.1:9/elsewhere.json"},
        {"properties": 3},
        {"properties": {"a": {"pattern": "("}}},
        {"$ref": "#"},
    ],
    ids=["type", "reference", "address", "shape", "pattern", "itself"],
)
def test_a_broken_schema_says_nothing(schema: dict[str, Any]):
    assert first_mistake({"a": "b"}, schema) == ""
