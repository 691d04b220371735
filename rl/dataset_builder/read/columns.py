"""Columns of a query that reads many rows: as text, so that nothing is converted before it is needed."""

from __future__ import annotations

import json

from django.db.models import TextField
from django.db.models.functions import Cast

from rl.base.records import Message
from rl.dataset_builder.wording import ask_agent
from rl.models import Agent, prompt_key


def as_text(column: str) -> Cast:
    """JSON, or an id."""
    return Cast(column, TextField())


def trace_id(text: str) -> str:
    """As ``str`` of a UUID: SQLite has its digits alone."""
    if len(text) != 32:
        return text
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


class Prompts:
    """The agent's, as its application asks them. Answers to one prompt follow each other: its text is parsed and hashed
    once."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._text: str | None = None
        self._stored: tuple[Message, ...] = ()
        self._asked: tuple[Message, ...] = ()
        self._split_key = ""

    def read(self, text: str) -> tuple[Message, ...]:
        if text != self._text:
            self._text, self._stored, self._split_key = text, tuple(json.loads(text)), ""
            self._asked = ask_agent(self._agent, self._stored)
        return self._asked

    def split_key(self) -> str:
        """The hash of the stored words of what was read last: other words for them hold out the same prompts."""
        self._split_key = self._split_key or prompt_key(self._stored)
        return self._split_key
