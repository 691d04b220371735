"""What a page may ask of an agent: the turns of a conversation, and nothing else.

The model, the parameters, the system prompt and whom the question counts for are the site's to choose.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final
from uuid import UUID

from rl.base.errors import UsageError
from rl.base.records import Message
from rl.models import Agent
from rl.serving.gateway.routing import KnownKey, Route, route
from rl.serving.gateway.table import load
from rl.web.front.questions import Question

MOST_TURNS: Final = 199
"""Questions and answers together; a longer conversation would fit no model that is served here."""
STEADY: Final = 0.2
"""The temperature of the page's questions, unless one version answers twice: near what the gate measures, which takes the
likeliest words. Small models wander at the 0.8 of llama.cpp."""
_ROLES: Final = ("user", "assistant")
_NAME: Final = re.compile(r"[0-9a-z-]{1,64}")


@dataclass(frozen=True, slots=True)
class Drawn:
    """One side of a pair."""

    trace_id: UUID
    version: str
    parameters: Mapping[str, float]


def read_question(body: bytes, agent: Agent, user_id: int, rater: str, drawn: Drawn | None = None) -> Question:
    """``body``: {messages, conversation} in JSON. ``drawn``: what is to answer, blind. Raises UsageError."""
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        raise UsageError("the question is not JSON; reload the page") from None
    if not isinstance(document, dict):
        raise UsageError("the question must be a JSON object; reload the page")
    chat = {"model": agent.name, "messages": _turns(document.get("messages")), "stream": True, "user": rater}
    chat |= {"temperature": STEADY}
    if drawn:
        chat |= {"model": f"{agent.name}@{drawn.version}", **drawn.parameters}
    session = session_of(user_id, _conversation(document.get("conversation")))
    blind_id = drawn.trace_id if drawn else None
    return Question(KnownKey.of_person(user_id, agent.pk), json.dumps(chat).encode(), session, blind_id)


def route_of(agent: Agent, user_id: int, rater: str) -> Route:
    """As the gateway would route a question."""
    return route(load(), KnownKey.of_person(user_id, agent.pk), agent.name, rater, datetime.now(UTC))


def session_of(user_id: int, conversation: str) -> str:
    """Names a person's conversation; without ``conversation``, how the sessions of all his conversations begin."""
    return f"try-{user_id}-{conversation}"


def why_nothing_answers(agent: Agent, user_id: int, rater: str) -> tuple[str, str]:
    """The reason, and the version that should answer; empty where one does."""
    chosen = route_of(agent, user_id, rater).served
    return ("", "") if chosen.upstream else (chosen.problem, chosen.version)


def _turns(messages: object) -> list[Message]:
    """Questions and answers in turn, a question last. Raises UsageError."""
    if not isinstance(messages, list) or len(messages) % 2 == 0:
        raise UsageError("messages must be questions and answers in turn, and end with a question")
    if len(messages) > MOST_TURNS:
        raise UsageError(f"a conversation has at most {MOST_TURNS} turns; start a new one")
    return [_turn(message, _ROLES[number % 2], number) for number, message in enumerate(messages)]


def _turn(message: Any, role: str, number: int) -> Message:
    """Raises UsageError."""
    if not isinstance(message, dict) or message.get("role") != role:
        raise UsageError(f"messages[{number}] must be of the {role}")
    content = message.get("content")
    if not isinstance(content, str) or not content.strip():
        raise UsageError(f"messages[{number}] must be text that is not empty")
    return {"role": role, "content": content}


def _conversation(name: object) -> str:
    """Raises UsageError."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise UsageError("conversation must be a name of 1 to 64 of the letters a-z, digits and '-'")
    return name
