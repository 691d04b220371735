"""ShareGPT: ``{"id", "conversations": [{"from": "human", "value": "..."}]}``, with the dialects of trainers that read it.

``system`` and ``tools`` may stand beside the conversation; ``function_call`` turns hold a call or several as JSON,
``observation`` turns their results; ``chosen`` and ``rejected`` are two answers to the conversation; a ``label`` or a
``kto_tag`` is a thumb."""

import json
from dataclasses import replace
from functools import partial
from typing import Any

from rl.collect.importers import chat
from rl.collect.importers.columns import CHOSEN, REJECTED, Columns
from rl.collect.importers.fields import Refused, identity, others
from rl.collect.importers.rows import SUFFIXES, records  # noqa: F401  SUFFIXES, for those who ask for it
from rl.collect.traces.imported import ImportedTrace

_CHAT = ("conversations", "conversation")
_SPEAKERS = {
    "user": ("human", "user", "prompter"),
    "assistant": ("gpt", "assistant", "chatgpt", "model", "bot", "bing", "bard", "function_call"),
    "system": ("system",),
    "tool": ("tool", "observation", "function_response", "function"),
}
_ROLES = {speaker: role for role, speakers in _SPEAKERS.items() for speaker in speakers}


def _conversation(row: dict[str, Any], where: str) -> list[ImportedTrace]:
    columns = Columns(row)
    turns = columns.take(_CHAT, "the chat")
    messages = chat.follow(columns.system(), _messages(turns, "conversations"), "conversations")
    columns.take(["id"], "the id of the answer")
    own_id = identity(row, "id")
    if not (columns.has(CHOSEN) and columns.has(REJECTED)):
        talk, feedback = chat.talk(messages, "conversations"), columns.feedback()
        made = [chat.trace(where, talk, columns.details(), feedback, external_id=own_id)]
    else:
        answers = columns.take(CHOSEN, "the better answer"), columns.take(REJECTED, "the worse answer")
        better, worse = (
            chat.talk(chat.follow(messages, _messages(answer, name), name), name)
            for answer, name in zip(answers, ("chosen", "rejected"), strict=True)
        )
        if len(own_id) > 180:
            raise Refused("id is longer than 180 characters")
        made = chat.pair(where, better, worse, columns.details(), own_id)
    return [*made[:-1], replace(made[-1], columns=columns.read_as)]


def _messages(turns: object, field: str) -> list[dict[str, Any]]:
    """Reads a list of turns, or a single one."""
    turns = [turns] if isinstance(turns, dict) else turns
    if not isinstance(turns, list) or not turns:
        raise Refused(f"{field} must be a list of {{from, value}}")
    return [_message(turn, f"{field}[{index}]") for index, turn in enumerate(turns)]


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
        try:
            calls = json.loads(value)
        except (ValueError, RecursionError):
            raise Refused(f"{field}.value of a function_call must be JSON, not {value!r:.50}") from None
        listed = calls if isinstance(calls, list) else [calls]
        return {**more, "role": "assistant", "content": "", "tool_calls": listed}
    return {**more, "role": _ROLES[speaker.lower()], "content": value}


read = partial(records, parse=_conversation)
