"""What a page may ask of an agent: the turns of a conversation, and nothing else.

The model, the parameters, the system prompt and whom the question counts for are the site's to choose.
"""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from typing import Any, Final

from rl.base.errors import UsageError
from rl.base.records import Message
from rl.models import Agent
from rl.serving.gateway.routing import KnownKey, route
from rl.serving.gateway.snapshot import load
from rl.web.front.questions import Question

MOST_TURNS: Final = 199
"""Questions and answers together; a longer conversation would fit no model that is served here."""
_ROLES: Final = ("user", "assistant")
_NAME: Final = re.compile(r"[0-9a-z-]{1,64}")


def read_question(body: bytes, agent: Agent, user_id: int, rater: str) -> Question:
    """``body``: {messages, conversation} in JSON. Raises UsageError."""
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        raise UsageError("the question is not JSON; reload the page") from None
    if not isinstance(document, dict):
        raise UsageError("the question must be a JSON object; reload the page")
    chat = {"model": agent.name, "messages": _turns(document.get("messages")), "stream": True, "user": rater}
    session = f"try-{user_id}-{_conversation(document.get('conversation'))}"
    return Question(KnownKey.of_person(user_id, agent.pk), json.dumps(chat).encode(), session)


def why_nothing_answers(agent: Agent, user_id: int, rater: str) -> tuple[str, str]:
    """The reason, and the version that should answer; empty where one does. As the gateway would route a question."""
    chosen = route(load(), KnownKey.of_person(user_id, agent.pk), agent.name, rater, datetime.now(UTC)).served
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
