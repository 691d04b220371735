"""Tool calls as Llama 3.1 and 3.2 write them: ``{"name": "...", "parameters": {...}}``, several with ``;`` between them,
perhaps after ``<|python_tag|>``.

Nothing but that tag tells a call from an answer that is JSON: an object with a name and parameters (or arguments) is a
call, and so is text that begins like one and is not JSON."""

import json
import re
from collections.abc import Sequence
from typing import Any

from rl.environments.contract import Action, ToolRequest
from rl.environments.dialects import action_of, document_of, dump_json, request_of, unreadable

TAG = "<|python_tag|>"
_SHAPE = '{"name": "...", "parameters": {...}}'
_KEYS = ("parameters", "arguments")
_BEGINS_LIKE_A_CALL = re.compile(r'\{\s*"(name|type|function|parameters)"\s*:')


def read_action(text: str) -> Action:
    """Never raises: a call that is malformed is the action's ``error``, which says what would be right."""
    prose, tag, body = text.partition(TAG)
    if not tag:
        prose, body = "", text
    prose, body = prose.strip(), body.strip()
    try:
        calls = _objects(body)
    except ValueError as error:
        if tag or _BEGINS_LIKE_A_CALL.match(body):
            return unreadable(prose, str(error), _SHAPE)
        return Action(body)
    looks_like_calls = calls and all(
        isinstance(call, dict) and "name" in call and any(key in call for key in _KEYS) for call in calls
    )
    if tag or looks_like_calls:
        return action_of(prose, calls, lambda call: request_of(call, *_KEYS), _SHAPE)
    return Action(body)


def write_calls(calls: Sequence[ToolRequest]) -> str:
    return "; ".join(dump_json(document_of(call, "parameters")) for call in calls)


def _objects(text: str) -> list[Any]:
    """Raises ValueError where it is not JSON values with ``;`` between them."""
    decoder, objects, at = json.JSONDecoder(), [], 0
    while True:
        try:
            value, at = decoder.raw_decode(text, at)
        except RecursionError:
            raise ValueError("it is nested too deeply") from None
        objects.append(value)
        rest = text[at:].lstrip()
        if not rest.strip("; \n"):
            return objects
        if not rest.startswith(";"):
            raise ValueError("there is text behind it")
        at = len(text) - len(rest[1:].lstrip())
