"""Counts the spans of a protobuf body before it is parsed: a span of two bytes takes more than a hundred in memory."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, islice

from google.protobuf.message import DecodeError

_PATH = (1, 2, 2)
"""Field numbers from the request to its spans: resource_spans, scope_spans, spans."""
_SIZES = {1: 8, 5: 4}
"""Bytes of the wire types of a fixed size."""
Extent = tuple[int, int]
"""Where a message begins and ends."""


def has_more_spans(body: bytes, most: int) -> bool:
    """Or more resources or scopes. Raises DecodeError for what no exporter writes."""
    level: list[Extent] = [(0, len(body))]
    for field in _PATH:
        inner = chain.from_iterable(_messages(body, extent, field) for extent in level)
        level = list(islice(inner, most + 1))
        if len(level) > most:
            return True
    return False


def _messages(body: bytes, extent: Extent, field: int) -> Iterator[Extent]:
    at, end = extent
    while at < end:
        tag, at = _number(body, at, end)
        kind = tag & 7
        if kind == 0:
            _, at = _number(body, at, end)
        elif kind == 2:
            size, at = _number(body, at, end)
            if tag >> 3 == field:
                yield at, min(at + size, end)
            at += size
        elif kind in _SIZES:
            at += _SIZES[kind]
        else:
            raise DecodeError(f"wire type {kind} at byte {at}")


def _number(body: bytes, at: int, end: int) -> Extent:
    """A variable-length integer, and where it ends."""
    number = 0
    for shift in range(0, 70, 7):
        if at >= end:
            break
        byte = body[at]
        at += 1
        number |= (byte & 127) << shift
        if byte < 128:
            return number, at
    raise DecodeError(f"a number is cut off at byte {at}")
