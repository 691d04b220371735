"""The JSON schema that accepted answers keep to, learned from them alone.

It narrows where many answers say so and nowhere else: objects have no further names, and texts are those of an enumeration,
where Good's estimate (``answer_kinds.py``) says that hardly one more is to be expected. Texts and lists end, at several
times the longest that was accepted, so that a model that does not come to an end keeps to the form too."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

FEWEST: Final = 20
"""Values that tell what further ones are."""
MOST_NEW: Final = 0.05
"""Chance that the next one is new: the share of those that were given once."""
MOST_VALUES: Final = 32
LONGEST_VALUE: Final = 80
"""How many an enumeration has, and characters of each."""
_ROOM: Final = 4
"""Times the longest that was accepted, at least _LEAST characters, at most _MOST: llama.cpp repeats nothing more often."""
_LEAST, _MOST = 64, 2000
_DEEPEST: Final = 8
_NAMES: Final = {type(None): "null", bool: "boolean", int: "integer", float: "number", str: "string", list: "array"}
Schema = dict[str, Any]


def learn_schema(objects: Sequence[Mapping[str, Any]]) -> Schema:
    """The fields in the order in which most answers have them, those of each answer as ``required``."""
    return _object(objects, 0)


def in_order(schema: Schema) -> Schema:
    """The same with the fields that are required first, in that order: a database may keep names in another one."""
    order = {name: number for number, name in enumerate(schema.get("required") or [])}
    properties = sorted(schema["properties"].items(), key=lambda item: order.get(item[0], len(order)))
    return {**schema, "properties": dict(properties)}


def comes_to_an_end(schema: Any) -> bool:
    """Whether all that keeps to it does, but for white space and digits."""
    if not isinstance(schema, dict):
        return False
    if "enum" in schema:
        return True
    if "anyOf" in schema:
        return all(map(comes_to_an_end, schema["anyOf"]))
    if schema.get("type") == "object":
        return schema.get("additionalProperties") is False and all(map(comes_to_an_end, schema["properties"].values()))
    if schema.get("type") == "array":
        return "maxItems" in schema and comes_to_an_end(schema.get("items"))
    return schema.get("type") in ("null", "boolean", "integer", "number") or "maxLength" in schema


def _value(values: Sequence[Any], depth: int) -> Schema:
    by_type: dict[str, list[Any]] = {}
    for value in values:
        by_type.setdefault(_NAMES.get(type(value), "object"), []).append(value)
    if {"integer", "number"} <= by_type.keys():
        del by_type["integer"]
    kinds = [_of_type(name, of_type, depth) for name, of_type in by_type.items()]
    return kinds[0] if len(kinds) == 1 else {"anyOf": kinds}


def _of_type(name: str, values: Sequence[Any], depth: int) -> Schema:
    if name == "object":
        return _object(values, depth + 1)
    if name == "string":
        return _text(values)
    items = [item for value in values for item in value] if name == "array" else []
    if not items or depth >= _DEEPEST:
        return {"type": name}
    longest = max(map(len, values))
    return {"type": "array", "items": _value(items, depth + 1), "maxItems": min(_ROOM * longest, _MOST)}


def _object(objects: Sequence[Mapping[str, Any]], depth: int) -> Schema:
    count = Counter(name for value in objects for name in value)
    if depth >= _DEEPEST or not is_complete(count, len(objects)):
        return {"type": "object"}
    order = Counter(tuple(value) for value in objects).most_common(1)[0][0]
    names = dict.fromkeys([*order, *count])
    return {
        "type": "object",
        "properties": {name: _value([value[name] for value in objects if name in value], depth) for name in names},
        "required": [name for name in names if count[name] == len(objects)],
        "additionalProperties": False,
    }


def _text(values: Sequence[str]) -> Schema:
    count = Counter(values)
    longest = max(map(len, values))
    if len(count) <= MOST_VALUES and longest <= LONGEST_VALUE and is_complete(count, len(values)):
        return {"enum": [value for value, _ in count.most_common()]}
    length = max(_LEAST, _ROOM * longest)
    return {"type": "string", "maxLength": length} if length <= _MOST else {"type": "string"}


def is_complete(count: Counter[str], of: int) -> bool:
    """Whether hardly a further one is to be expected."""
    return of >= FEWEST and sum(times == 1 for times in count.values()) <= MOST_NEW * of
