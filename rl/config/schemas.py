"""JSON schemas, which servers make grammars of: how large they may be, and how much they may leave open.

A grammar that leaves much open is followed in many ways at once, for each token that might come next, and no other request
goes on meanwhile. At these bounds llama.cpp converts all schemas of a request within half a second, and takes a quarter of
one for a token (of 49,000) where most is open."""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final, TypeVar

from rl.base.errors import UsageError
from rl.config.patterns import NotPassed, count_ways

MOST_VALUES: Final = 100
LONGEST_VALUE: Final = 200
"""Characters of an answer of a closed set, which has at most MOST_VALUES."""


def check_answer_values(value: object) -> None:
    """Raises UsageError."""
    if (
        not isinstance(value, list)
        or len(value) > MOST_VALUES
        or not all(isinstance(text, str) and 0 < len(text.strip()) == len(text) <= LONGEST_VALUE for text in value)
    ):
        raise UsageError(f"must be a JSON list of at most {MOST_VALUES} texts of 1 to {LONGEST_VALUE} characters")
    if len({answer.casefold() for answer in value}) < len(value):
        raise UsageError("has an answer twice")


MOST_PARTS: Final = 2000
"""Objects, lists and values of all schemas of a request."""
MOST_LETTERS: Final = 60_000
"""In names of properties and in values."""
MOST_WAYS: Final = 256
"""Values of an enumeration, optional properties of an object, choices that begin alike: what is open at one point."""
LARGEST_LEAST: Final = 2000
"""``minItems``, ``minLength``: llama.cpp's grammars repeat nothing more often."""
_ROUNDS: Final = 16
"""How deep what refers to itself is followed."""
_PATTERN_SHARE: Final = 20
"""Ways through a pattern that cost as much as one value of an enumeration."""
_DATA: Final = ("const", "default", "examples", "enum", "description", "title", "$comment", "required")
"""Keywords whose values are data."""
_NAMED: Final = ("properties", "$defs", "definitions", "patternProperties", "dependentSchemas")
"""Keywords whose values are schemas by name."""
_LEAST: Final = ("minItems", "minLength", "minProperties", "minContains")
_COUNTS: Final = (*_LEAST, "maxItems", "maxLength", "maxProperties", "maxContains")
_NAMES: Final = {bool: "boolean", int: "number", float: "number", str: "string", list: "array", dict: "object"}
_TYPES: Final = {*_NAMES.values(), "null"}
Schema = Mapping[str, Any]
T = TypeVar("T", list[Any], dict[str, Any])


class BadSchema(UsageError):
    def __init__(self, message: str, param: str, code: str | None = None) -> None:
        """``param``: the field that has it; ``code``: for programs."""
        super().__init__(message)
        self.param, self.code = param, code


class Schemas:
    """Those of one request: they share the bounds."""

    def __init__(self, of: str = "the schemas of response_format and tools together") -> None:
        """``of``: how errors call them."""
        self._of = of
        self._parts = self._letters = 0
        self._patterns: dict[str, int] = {}
        self._ways = 0

    @property
    def left_out(self) -> list[str]:
        """The keyword whose values did not all pass."""
        return [] if all(self._patterns.values()) else ["pattern"]

    def check(self, schema: object, param: str) -> Any:
        """The schema as it is passed on: without the patterns that leave too much open, or that no grammar can be made of.
        Raises BadSchema."""
        if not isinstance(schema, dict | bool):
            raise BadSchema(f"{param} must be a JSON schema, an object", param)
        try:
            passed = self._walk(schema, param, named=False)
            self._ways += _Ways(passed, param, self._patterns).most() if isinstance(passed, dict) else 0
        except RecursionError:
            raise BadSchema(f"{param} is nested too deep", param, "schema_too_complex") from None
        self._require(self._ways, MOST_WAYS, f"leave open more than {MOST_WAYS} ways to go on at one point", param)
        return passed

    def _walk(self, value: Any, param: str, named: bool) -> Any:
        self._count(value, param=param)
        if isinstance(value, list):
            return [self._walk(element, param, named=False) for element in value]
        if not isinstance(value, dict):
            return value
        if named:
            self._count(*value, param=param)
            return {name: self._walk(inner, param, named=False) for name, inner in value.items()}
        for name in _COUNTS:
            if name in value:
                _check_count(name, value[name], param)
        passed = {name: inner for name, inner in value.items() if name != "pattern" or self._passes(inner, param)}
        return {name: self._keyword(name, inner, param) for name, inner in passed.items()}

    def _keyword(self, name: str, value: Any, param: str) -> Any:
        if name not in _DATA:
            return self._walk(value, param, named=name in _NAMED)
        if name in ("const", "enum"):
            self._count(*_inside(value), param=param)
        return value

    def _count(self, *parts: Any, param: str) -> None:
        self._parts += len(parts)
        self._letters += sum(len(part) for part in parts if isinstance(part, str))
        self._require(self._parts, MOST_PARTS, f"have more than {MOST_PARTS} parts", param)
        self._require(self._letters, MOST_LETTERS, f"have more than {MOST_LETTERS} letters in names and values", param)

    def _require(self, count: int, most: int, problem: str, param: str) -> None:
        if count > most:
            raise BadSchema(f"{self._of} {problem}; ask for less at once", param, "schema_too_complex")

    def _passes(self, pattern: object, param: str) -> bool:
        """Raises BadSchema."""
        if not isinstance(pattern, str):
            raise BadSchema(f"{param}: a pattern must be text", param)
        if pattern not in self._patterns:
            try:
                self._patterns[pattern] = 1 + count_ways(pattern) // _PATTERN_SHARE
            except NotPassed:
                self._patterns[pattern] = 0
        return self._patterns[pattern] > 0


def check_answer_schema(value: object) -> None:
    """Raises UsageError unless it is the schema of a JSON object, within the bounds, or empty: there is none."""
    if value == {}:
        return
    if not isinstance(value, dict) or value.get("type") != "object" or not isinstance(value.get("properties"), dict):
        raise UsageError('must be a JSON schema of an object: {"type": "object", "properties": {…}}')
    try:
        is_long = len(json.dumps(value)) > MOST_LETTERS
    except RecursionError:
        raise UsageError("is nested too deep") from None
    if is_long:
        raise UsageError(f"must be at most {MOST_LETTERS} characters of JSON")
    schemas = Schemas("parts of the schema")
    schemas.check(value, "the schema")
    if schemas.left_out:
        raise UsageError("has a pattern that no server would be given: it can be read in too many ways, or not at all")


def _check_count(name: str, value: object, param: str) -> None:
    most = LARGEST_LEAST if name in _LEAST else 2**31 - 1
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= most:
        raise BadSchema(f"{param}: {name} must be a whole number from 0 to {most}", param, "schema_too_complex")


def _inside(value: Any) -> Iterator[Any]:
    yield value
    for element in (*value, *value.values()) if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _inside(element)


class _Ways:
    """How many ways to go on there may be at one point of what a schema describes."""

    def __init__(self, schema: Schema, param: str, patterns: Mapping[str, int]) -> None:
        self._root, self._param, self._patterns = schema, param, patterns
        self._referred = {element["$ref"] for element in _inside(schema) if _refers(element)}
        self._targets = {pointer: self._target(pointer) for pointer in self._referred}
        self._known = dict.fromkeys(self._targets, 1)

    def most(self) -> int:
        """What refers to itself has as many more in each round, until nothing changes."""
        for _ in range(_ROUNDS):
            before = self._known
            self._known = {pointer: min(MOST_WAYS + 1, self._of(target)) for pointer, target in self._targets.items()}
            if self._known == before:
                break
        return self._of(self._root)

    def _target(self, pointer: str) -> Any:
        """Raises BadSchema."""
        target: Any = self._root
        for name in pointer.removeprefix("#").split("/")[1:]:
            name = name.replace("~1", "/").replace("~0", "~")
            target = target.get(name) if isinstance(target, dict) else None
        if not pointer.startswith("#") or not isinstance(target, dict | bool):
            raise BadSchema(f"{self._param}: {pointer[:100]!r} refers to nothing in this schema", self._param)
        return target

    def _of(self, schema: Any) -> int:
        if not isinstance(schema, dict):
            return 1
        if _refers(schema):
            return self._known[schema["$ref"]]
        properties, required = _get(schema, "properties", dict), _get(schema, "required", list)
        inner = [schema.get("items"), schema.get("additionalProperties"), *properties.values()]
        inner += [*_get(schema, "prefixItems", list), *_get(schema, "items", list)]
        return max(
            len(_get(schema, "enum", list)),
            1 + len(properties.keys() - {name for name in required if isinstance(name, str)}),
            self._patterns.get(schema.get("pattern", ""), 1),
            *map(self._of, inner),
            *(self._choice(_get(schema, name, list)) for name in ("anyOf", "oneOf")),
            sum(map(self._of, _get(schema, "allOf", list))),
        )

    def _choice(self, choices: Sequence[Any]) -> int:
        """Choices of different types are told apart by their first character, objects by a first property that has one value
        in each."""
        ways = [(self._types(choice), self._tag(choice), self._of(choice)) for choice in choices]
        most = 1
        for kind in _TYPES:
            alike = [(tag, count) for types, tag, count in ways if kind in types]
            tags, counts = {tag for tag, _ in alike}, [count for _, count in alike]
            are_told_apart = len(tags) == len(alike) > 1 and None not in tags
            most = max(most, len(alike) + max(counts) if are_told_apart else sum(counts))
        return most

    def _resolve(self, schema: Any) -> Any:
        for _ in range(_ROUNDS):
            if not _refers(schema):
                break
            schema = self._targets[schema["$ref"]]
        return schema if isinstance(schema, dict) else {}

    def _types(self, schema: Any) -> Collection[str]:
        schema = self._resolve(schema)
        if isinstance(types := schema.get("type"), str | list):
            names = [types] if isinstance(types, str) else types
            return ["number" if name == "integer" else name for name in names]
        if "properties" in schema:
            return ("object",)
        values = [schema["const"]] if "const" in schema else schema.get("enum")
        return [_NAMES.get(type(value), "null") for value in values] if isinstance(values, list) else _TYPES

    def _tag(self, schema: Any) -> str | None:
        schema = self._resolve(schema)
        required = schema.get("required")
        for name, inner in _get(schema, "properties", dict).items():
            if isinstance(required, list) and name in required and isinstance(inner, dict):
                values = [inner["const"]] if "const" in inner else inner.get("enum")
                return repr((name, values[0])) if isinstance(values, list) and len(values) == 1 else None
        return None


def _get(schema: Schema, name: str, kind: type[T]) -> T:
    """Empty where it is of another kind."""
    return value if isinstance(value := schema.get(name), kind) else kind()


def _refers(schema: Any) -> bool:
    return isinstance(schema, dict) and isinstance(schema.get("$ref"), str)
