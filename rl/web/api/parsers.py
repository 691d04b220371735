"""JSON as RFC 8259 has it, and nothing that a database or the next reader of the row would choke on."""

from __future__ import annotations

import json
from collections.abc import Iterator
from math import isinf
from typing import Any, NoReturn

from rest_framework.exceptions import ParseError
from rest_framework.parsers import JSONParser

from rl.collect.feedback import unstorable

MAX_DEPTH = 64
"""Arrays and objects inside one another."""
MAX_INTEGER = 2**63 - 1


class StrictJSONParser(JSONParser):
    """Refuses NUL characters, halves of surrogate pairs, NaN, Infinity, deep nesting and integers beyond 64 bits.

    A lone surrogate would be stored by SQLite and break every later answer that contains the row.
    """

    def parse(self, stream: Any, media_type: str | None = None, parser_context: Any = None) -> Any:
        """Raises ParseError with the position."""
        body = stream.read()
        try:
            text = body.decode("utf-8")
            document = _DECODER.decode(text)
        except UnicodeDecodeError as error:
            raise ParseError(f"the body is not UTF-8: byte {error.start}") from error
        except json.JSONDecodeError as error:
            raise ParseError(f"malformed JSON: {error.msg} at line {error.lineno}, column {error.colno}") from error
        except RecursionError as error:
            raise ParseError(f"nested deeper than {MAX_DEPTH} levels") from error
        _check(document)
        return document


def _refuse_constant(name: str) -> NoReturn:
    raise ParseError(f"{name} is not JSON")


def _integer(digits: str) -> int:
    # Length first: converting a million digits takes seconds.
    if len(digits) > 20 or not -MAX_INTEGER - 1 <= (number := int(digits)) <= MAX_INTEGER:
        raise ParseError(f"the integer {digits[:20]}{'…' if len(digits) > 20 else ''} does not fit into 64 bits")
    return number


def _float(digits: str) -> float:
    if isinf(number := float(digits)):
        raise ParseError(f"the number {digits[:20]} is too large")
    return number


_DECODER = json.JSONDecoder(parse_constant=_refuse_constant, parse_int=_integer, parse_float=_float)


def _check(document: Any) -> None:
    """Looks at every string, level by level."""
    level: list[tuple[str, Any]] = [("", [document])]
    for _ in range(MAX_DEPTH + 1):
        level = [found for pointer, container in level for found in _containers(pointer, container)]
        if not level:
            return
    raise ParseError(f"nested deeper than {MAX_DEPTH} levels")


def _containers(pointer: str, container: Any) -> Iterator[tuple[str, Any]]:
    """The arrays and objects inside; checks the strings inside on the way."""
    for name, inner in container.items() if isinstance(container, dict) else enumerate(container):
        if isinstance(name, str):
            _check_text(name, pointer)
        if isinstance(inner, str):
            _check_text(inner, f"{pointer}/{name}")
        elif isinstance(inner, (dict, list)):
            yield f"{pointer}/{name}", inner


def _check_text(text: str, pointer: str) -> None:
    if reason := unstorable(text):
        raise ParseError(f"the text at {pointer.removeprefix('/0') or 'the top'} {reason}")
