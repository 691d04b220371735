"""A pickle as plain data, whatever it says: nothing is imported, nothing of it is called, and its cost is bounded.

==================  ====================================================================================================
in the pickle       as plain data
==================  ====================================================================================================
list, tuple, set    a list
dict                an object; ``{"$pairs": [[key, value], …]}`` where keys are not a text or number
object              ``{"$class": "module.Name", field: value, …}``, and where it has them ``$value`` (made from one text
                    or number, as members of an enum are) or ``$arguments``, ``$state`` (no dict), ``$elements`` (of a
                    list), ``$mapping`` (of a dict, or keyword arguments)
class, function     ``{"$type": "module.name"}``
bytes               ``{"$bytes": "base64"}``
date, time          ISO 8601; a timedelta is its seconds; a number that is not finite is null
seen on the way     ``{"$cycle": true}``: the object contains itself here
==================  ====================================================================================================

What several places of the pickle share is converted once and shared here too, so a file of "ten times the last list, ten
times" stays small until somebody writes it out."""

import gc
import json
import resource
import sys
from base64 import b64encode
from collections.abc import Iterator
from contextlib import suppress
from datetime import date, datetime, time, timedelta
from math import isfinite
from typing import Any

from rl.base.errors import BadFile
from rl.from_systems.toolbox.checkpoints import opcodes
from rl.from_systems.toolbox.checkpoints.extraction import extract
from rl.from_systems.toolbox.checkpoints.machine import Machine


def read_pickle(data: bytes, name: object = "pickle", limits: opcodes.PickleLimits | None = None) -> Any:
    """What the table says. Raises only BadFile, with the byte and the opcode."""
    limits = limits or opcodes.PickleLimits()
    operations = opcodes.Operations(data)
    try:
        if len(data) > limits.file_bytes:
            raise opcodes.OpcodeRefused(f"the file has more than {limits.file_bytes:,} bytes")
        return PlainValues(limits).value(Machine(limits).run(operations))
    except opcodes.OpcodeRefused as refused:
        what = str(refused)
    except MemoryError:
        what = "needs more memory than it may have"
    raise BadFile(name, f"is not a checkpoint that can be read: {what}", f"byte {operations.offset}, {operations.name}")


class PlainValues:
    def __init__(self, limits: opcodes.PickleLimits) -> None:
        self._limit = limits.depth
        self._done: dict[int, tuple[Any, int]] = {}
        """By identity (every value lives as long as the pickle's root): what it became, and how many levels that has."""
        self._open: set[int] = set()
        self._seen = 0
        """The deepest level below the value at hand."""

    def value(self, node: Any, depth: int = 0) -> Any:
        """Raises OpcodeRefused for what is nested too deeply."""
        if node is None or isinstance(node, (bool, int, str)):
            return node
        if isinstance(node, float):
            return node if isfinite(node) else None
        key = id(node)
        if key in self._open:
            return {"$cycle": True}
        if key not in self._done:
            self._done[key] = self._convert(node, key, depth)
        plain, height = self._done[key]
        self._note(depth + height)
        return plain

    def _convert(self, node: Any, key: int, depth: int) -> tuple[Any, int]:
        self._note(depth)
        outside, self._seen = self._seen, depth
        self._open.add(key)
        plain = self._build(node, depth + 1)
        self._open.remove(key)
        height = self._seen - depth
        self._seen = max(outside, self._seen)
        return plain, height

    def _note(self, depth: int) -> None:
        if depth > self._limit:
            raise opcodes.OpcodeRefused(f"nested deeper than {self._limit} levels")
        self._seen = max(self._seen, depth)

    def _build(self, node: Any, depth: int) -> Any:
        match node:
            case list() | tuple():
                return [self.value(item, depth) for item in node]
            case opcodes.PickledSet():
                return [self.value(item, depth) for item in node.items]
            case opcodes.Pairs():
                return self._object(node, depth)
            case opcodes.Record():
                return self._record(node, depth)
            case opcodes.Global():
                return {"$type": str(node)}
            case bytes():
                return {"$bytes": b64encode(node).decode()}
            case timedelta():
                return node.total_seconds()
            case datetime() | date() | time():
                return node.isoformat()
        return str(node)

    def _object(self, pairs: opcodes.Pairs, depth: int) -> dict[str, Any]:
        fields: dict[str, Any] = {}
        types: dict[str, type] = {}
        for key, value in pairs.items:
            plain = self.value(key, depth)
            text = _key(plain)
            if text is None or types.setdefault(text, type(plain)) is not type(plain):
                return {"$pairs": [[self.value(key, depth), self.value(value, depth)] for key, value in pairs.items]}
            fields[text] = self.value(value, depth)
        return fields

    def _record(self, record: opcodes.Record, depth: int) -> Any:
        fields: dict[str, Any] = {}
        for state in record.states:
            fields.update(self._fields(state, depth))
        if record.class_name == "uuid.UUID" and isinstance(fields.get("int"), int):
            digits = f"{fields['int'] % 2**128:032x}"
            return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))
        fields.update(self._parts(record, depth))
        return fields

    def _parts(self, record: opcodes.Record, depth: int) -> Iterator[tuple[str, Any]]:
        yield "$class", record.class_name
        arguments = [self.value(argument, depth) for argument in record.arguments]
        if len(arguments) == 1 and isinstance(arguments[0], (str, int, float)):
            yield "$value", arguments[0]
        elif arguments:
            yield "$arguments", arguments
        if record.elements:
            yield "$elements", [self.value(element, depth) for element in record.elements]
        if record.pairs.items:
            yield "$mapping", self._object(record.pairs, depth)

    def _fields(self, state: Any, depth: int) -> dict[str, Any]:
        """A dict; a pair of dicts (the second are slots); a dict that has the fields in its ``__dict__``, as pydantic's."""
        if isinstance(state, tuple) and len(state) == 2 and all(part is None or _is_fields(part) for part in state):
            return {name: value for part in state if part for name, value in self._fields(part, depth).items()}
        if not _is_fields(state):
            return {"$state": self.value(state, depth)}
        fields = self._object(state, depth)
        if not isinstance(inner := fields.get("__dict__"), dict):
            return fields
        # without what pydantic keeps beside the fields
        return {**inner, **{key: fields[key] for key in fields if not (key.startswith("__") and key.endswith("__"))}}


def _is_fields(state: Any) -> bool:
    return isinstance(state, opcodes.Pairs) and all(isinstance(key, str) for key, _ in state.items)


def _key(plain: Any) -> str | None:
    match plain:
        case str():
            return plain
        case None:
            return "null"
        case bool():
            return str(plain).lower()
        case int() | float():
            return str(plain)
        case {"$value": str() as value}:
            return value
    return None


MEMORY, CPU_SECONDS, MOST_OUTPUT = 2**30, 20, 256 * 2**20
"""Bytes, seconds, bytes."""
_LIMITS = {
    resource.RLIMIT_AS: MEMORY,
    resource.RLIMIT_CPU: CPU_SECONDS,
    resource.RLIMIT_FSIZE: MOST_OUTPUT + 2**20,
    resource.RLIMIT_CORE: 0,
}


def main() -> None:
    for limit, value in _LIMITS.items():
        with suppress(ValueError, OSError):  # a stricter limit is in force, or this system has no such one
            resource.setrlimit(limit, (value, value))
    gc.disable()  # it would look again and again at millions of live objects
    for line in lines(sys.stdin.buffer.read(opcodes.PickleLimits().file_bytes + 1)):
        sys.stdout.buffer.write(line)
    sys.stdout.buffer.flush()


def lines(data: bytes) -> Iterator[bytes]:
    try:
        about, conversations = extract(read_pickle(data))
        yield _line(about)
        written = 0
        for conversation in conversations:
            line = _line(conversation)
            written += len(line)
            if written > MOST_OUTPUT:
                raise opcodes.OpcodeRefused(f"its conversations take more than {MOST_OUTPUT // 2**20} MB")
            yield line
        yield _line({"end": True})
    except BadFile as error:
        yield _line({"refused": error.problem, "where": error.location})
    except opcodes.OpcodeRefused as error:
        yield _line({"refused": str(error), "where": ""})
    except MemoryError:
        yield _line({"refused": f"needs more than {MEMORY // 2**30} GB of memory", "where": ""})


def _line(value: dict[str, Any]) -> bytes:
    """Half surrogate pairs stay, for whoever stores the text to refuse by name."""
    return json.dumps(value).encode() + b"\n"
