"""JSON as RFC 8259 has it, and nothing that a database or the next reader of the row would choke on."""

import json
from typing import Any, NoReturn

from rest_framework.exceptions import ParseError
from rest_framework.parsers import JSONParser

from rl.collect.storable import DEEPEST, pointer_to_unstorable, unstorable

MOST_CONTAINERS = 300_000
"""Lists and objects of a body, counted by their braces and brackets, those within texts too: to look at that many takes a
second."""


class StrictJSONParser(JSONParser):
    """Refuses NUL characters, halves of surrogate pairs, NaN, Infinity, deep nesting and integers beyond 64 bits."""

    def parse(self, stream: Any, media_type: str | None = None, parser_context: Any = None) -> Any:
        """Raises ParseError with the position."""
        return parse_json(stream.read())


def parse_json(body: bytes) -> Any:
    """Raises ParseError with the position."""
    document = _decode(body)
    if body.count(b"{") + body.count(b"[") > MOST_CONTAINERS:
        raise ParseError(f"the body has more than {MOST_CONTAINERS:,} braces and brackets; send it in parts")
    if problem := unstorable(document):
        raise ParseError(f"{pointer_to_unstorable(document) or 'the document'} {problem}")
    return document


def _decode(body: bytes) -> Any:
    try:
        return _DECODER.decode(body.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise ParseError(f"the body is not UTF-8: byte {error.start}") from error
    except json.JSONDecodeError as error:
        raise ParseError(f"malformed JSON: {error.msg} at line {error.lineno}, column {error.colno}") from error
    except RecursionError as error:
        raise ParseError(f"the document is nested deeper than {DEEPEST} levels") from error
    except ValueError as error:  # Python converts no more than some thousand digits: that would take seconds
        raise ParseError("the document contains a whole number of more than 64 bits") from error


def _refuse_constant(name: str) -> NoReturn:
    raise ParseError(f"{name} is not JSON")


_DECODER = json.JSONDecoder(parse_constant=_refuse_constant)
