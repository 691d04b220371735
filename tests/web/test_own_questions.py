"""What somebody asked before a training, beside what the version in use answers."""

from __future__ import annotations

import pytest

from rl.models import Agent, Trace
from rl.models.traces import GATEWAY
from rl.web.conversations import session_of
from rl.web.own_questions import QUESTIONS, last_verdict, questions_before_and_after
from tests.admin.records import make_loop, make_version
from tests.conftest import make_trace

pytestmark = pytest.mark.django_db
ME = 7


def answer(agent: Agent, question: str, text: str, **values) -> Trace:
    return make_trace(agent, question, text, **{"source": GATEWAY, "session_id": session_of(ME, "one"), **values})


def test_each_question_has_its_newest_answer_of_an_earlier_version_and_of_the_one_in_use(agent: Agent) -> None:
    live, old = make_version(agent, "v2"), make_version(agent, "v1")
    answer(agent, "Why?", "first")
    answer(agent, "Why?", "second", model_version=old)
    answer(agent, "Why?", "now", model_version=live)
    answer(agent, "Where?", "here")
    why, where = sorted(questions_before_and_after(agent, ME, live), key=lambda row: row["question"], reverse=True)
    assert why == {"question": "Why?", "before": "second", "before_name": "v1", "after": "now"}
    assert where == {"question": "Where?", "before": "here", "before_name": "base", "after": None}


def test_only_what_he_asked_himself_counts_and_only_what_an_earlier_version_answered(agent: Agent) -> None:
    live = make_version(agent, "v2")
    answer(agent, "of another", "x", session_id=session_of(77, "one"))
    answer(agent, "of an app", "x", source="api")
    answer(agent, "new", "x", model_version=live)
    answer(agent, "unanswered", "")
    turns = [{"role": role, "content": role} for role in ("user", "assistant", "user")]
    Trace.objects.filter(pk=answer(agent, "later", "x").pk).update(prompt=turns)
    assert questions_before_and_after(agent, ME, live) == []


def test_they_are_the_newest_few(agent: Agent) -> None:
    for number in range(QUESTIONS + 2):
        answer(agent, f"question {number}", "x")
    rows = questions_before_and_after(agent, ME, make_version(agent, "v1"))
    assert [row["question"] for row in rows] == [f"question {number}" for number in range(QUESTIONS + 1, 1, -1)]


def test_the_verdict_is_that_on_the_newest_version(agent: Agent) -> None:
    assert last_verdict(agent) == {"text": "", "version": ""}
    make_loop(agent)
    verdict = last_verdict(agent)
    assert verdict["version"] == "v1"
    assert verdict["text"] == "v1 is better."
