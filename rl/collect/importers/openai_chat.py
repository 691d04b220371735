"""OpenAI's fine-tuning chats: ``{"messages": [...], "tools": [...]}``, one to a line. The last answer is the response.

A ``system`` message may stand beside them, and a ``label`` (KTO), which is a thumb. A ``weight`` on a message, and whatever
else one says beside role and content, is kept with the messages in the details."""

from dataclasses import replace
from functools import partial
from typing import Any

from rl.collect.importers import chat
from rl.collect.importers.columns import Columns
from rl.collect.importers.fields import Refused
from rl.collect.importers.rows import SUFFIXES, records  # noqa: F401  SUFFIXES, for those who ask for it
from rl.collect.traces.imported import ImportedTrace


def _chat(row: dict[str, Any], where: str) -> list[ImportedTrace]:
    columns = Columns(row)
    if "messages" not in row:
        raise Refused("has no messages")
    talk, feedback = columns.chat(["messages"]), columns.feedback()
    return [replace(chat.trace(where, talk, columns.details(), feedback), columns=columns.read_as)]


read = partial(records, parse=_chat)
