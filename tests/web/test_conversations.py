"""In-process: what a page may say to the gateway. tests/web/front/test_questions.py has it said to a real one."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rl.base.errors import UsageError
from rl.models import Agent
from rl.web.conversations import MOST_TURNS, read_question
from rl.web.front.questions import Question


def read(agent: Agent, document: Any) -> Question:
    body = document if isinstance(document, bytes) else json.dumps(document).encode()
    return read_question(body, agent, 7, "user:alice")


def said(role: str, content: Any = "hello") -> dict[str, Any]:
    return {"role": role, "content": content}


def test_the_caller_is_the_person_and_may_ask_this_agent_alone(agent: Agent) -> None:
    question = read(agent, {"messages": [said("user")], "conversation": "1-a"})
    caller = question.caller
    assert (caller.id, caller.user_id, caller.agent_id, set(caller.scopes)) == (None, 7, agent.pk, {"ingest"})
    assert question.session_id == "try-7-1-a"


@pytest.mark.parametrize(
    ("document", "problem"),
    [
        (b"{", "is not JSON"),
        (b"[" * 100_000, "is not JSON"),
        ([], "must be a JSON object"),
        ({"conversation": "a"}, "questions and answers in turn"),
        ({"messages": [], "conversation": "a"}, "end with a question"),
        ({"messages": [said("user"), said("assistant")], "conversation": "a"}, "end with a question"),
        ({"messages": [said("system")], "conversation": "a"}, "messages[0] must be of the user"),
        ({"messages": [said("user")] * 3, "conversation": "a"}, "messages[1] must be of the assistant"),
        ({"messages": [said("user", " ")], "conversation": "a"}, "text that is not empty"),
        ({"messages": [said("user", [{"type": "image_url"}])], "conversation": "a"}, "text that is not empty"),
        ({"messages": [said("user")] * (MOST_TURNS + 2), "conversation": "a"}, "at most 199 turns; start a new one"),
        ({"messages": [said("user")]}, "conversation must be a name"),
        ({"messages": [said("user")], "conversation": "x\r\ny"}, "conversation must be a name"),
        ({"messages": [said("user")], "conversation": "a" * 65}, "conversation must be a name"),
    ],
)
def test_what_is_not_a_conversation_is_refused_in_words(agent: Agent, document: Any, problem: str) -> None:
    with pytest.raises(UsageError) as raised:
        read(agent, document)
    assert problem in str(raised.value)
