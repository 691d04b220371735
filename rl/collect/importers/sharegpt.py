"""ShareGPT: ``{"id", "conversations": [{"from": "human", "value": "..."}]}``, with the dialects of trainers that read it.

``system`` and ``tools`` may stand beside the conversation; ``function_call`` turns hold a call or several as JSON,
``observation`` turns their results; ``chosen`` and ``rejected`` are two answers to the conversation.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rl.collect.importers import chat
from rl.collect.importers.fields import Refused, identity, others, text
from rl.collect.importers.rows import SUFFIXES, Record, Rejected, records
from rl.collect.traces.imported import ImportedTrace

__all__ = ["SUFFIXES", "read"]
_SPEAKERS = {
    "user": ("human", "user"),
    "assistant": ("gpt", "assistant", "chatgpt", "model", "bot", "bing", "bard", "function_call"),
    "system": ("system",),
    "tool": ("tool", "observation", "function_response", "function"),
}
_ROLES = {speaker: role for role, speakers in _SPEAKERS.items() for speaker in speakers}


def read(path: Path) -> Iterator[Record | Rejected]:
    """Raises BadFile."""
    return records(path, _conversation)


def _conversation(row: dict[str, Any], where: str) -> list[ImportedTrace]:
    turns = row.get("conversations", row.get("conversation"))
    if not isinstance(turns, list) or not turns:
        raise Refused("conversations must be a list of {from, value}")
    messages = [_message(turn, f"conversations[{index}]") for index, turn in enumerate(turns)]
    if system := text(row, "system"):
        messages.insert(0, {"role": "system", "content": system})
    details = others(row, ("id", "conversations", "conversation", "system", "chosen", "rejected"))
    if row.get("chosen") is None or row.get("rejected") is None:
        return [chat.trace(where, chat.talk(messages, "conversations"), details, external_id=identity(row, "id"))]
    better, worse = (chat.talk([*messages, _message(row[name], name)], name) for name in ("chosen", "rejected"))
    own_id = text(row, "id")
    if len(own_id) > 180:
        raise Refused("id is longer than 180 characters")
    return chat.pair(where, better, worse, details, own_id)


def _message(turn: object, field: str) -> dict[str, Any]:
    if not isinstance(turn, dict):
        raise Refused(f"{field} is not an object")
    speaker, value = turn.get("from", turn.get("role")), turn.get("value", turn.get("content"))
    if not isinstance(speaker, str) or speaker.lower() not in _ROLES:
        raise Refused(f"{field}.from must be one of {', '.join(_ROLES)}, not {speaker!r:.50}")
    if not isinstance(value, str):
        raise Refused(f"{field}.value must be text, not {value!r:.50}")
    more = others(turn, ("from", "role", "value", "content"))
    if speaker.lower() == "function_call":
        return {**more, "role": "assistant", "content": "", "tool_calls": _calls(value, field)}
    return {**more, "role": _ROLES[speaker.lower()], "content": value}


def _calls(value: str, field: str) -> list[Any]:
    try:
        calls = json.loads(value)
    except (ValueError, RecursionError):
        raise Refused(f"{field}.value of a function_call must be JSON, not {value!r:.50}") from None
    return calls if isinstance(calls, list) else [calls]
