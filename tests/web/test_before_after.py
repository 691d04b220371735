import json
from typing import Any

import pytest
from django.test import Client

from rl.base.errors import UsageError
from rl.models import Agent, Deployment, Evaluation, ModelVersion, Trace
from rl.models.traces import GATEWAY
from rl.web.conversations import (
    MOST_TURNS,
    QUESTIONS,
    last_verdict,
    newest_answers,
    questions_before_and_after,
    read_question,
    session_of,
)
from rl.web.front.answers import GatewayQuestion
from tests.admin.records import make_evaluation, make_loop, make_run, make_training_set, make_version
from tests.conftest import make_trace

pytestmark = pytest.mark.django_db

PAGE = "/try/support-chat/before-and-after/"
SAMPLES = [
    {
        "prompt": "Who are you?",
        "new": {"answer": "", "errors": ["empty"]},
        "base": {"answer": "Nobody", "errors": []},
        "current": {"answer": "x", "errors": []},
    },
    {
        "prompt": "Why is the sky blue?",
        "new": {"answer": "Air scatters blue light.", "errors": []},
        "base": {"answer": "The sky is", "errors": []},
    },
]
SKY = {"prompt": "Why is the sky blue?", "before": "The sky is", "after": "Air scatters blue light."}
NOBODY = {"prompt": "Who are you?", "before": "Nobody", "after": ""}
REPORT = {"guards": {"samples": SAMPLES}}
ME = 7


def measured(agent: Agent, report: Any, name: str = "v40", number: int = 1) -> Evaluation:
    row = make_evaluation(make_version(agent, name), make_training_set(agent, number))
    Evaluation.objects.filter(pk=row.pk).update(report=report)
    row.refresh_from_db()
    return row


def use(version: ModelVersion) -> None:
    Deployment.objects.create(agent=version.agent, version=version, alias="champion")


def test_the_answers_come_in_an_order_that_has_nothing_to_do_with_their_errors(agent: Agent) -> None:
    evaluation = measured(agent, REPORT)
    compared = newest_answers(agent)
    assert compared is not None
    assert compared.evaluation == evaluation
    assert evaluation.before_and_after == [SKY, NOBODY]
    backwards = measured(agent, {"guards": {"samples": SAMPLES[::-1]}}, "v41", 2)
    assert backwards.before_and_after == [SKY, NOBODY]


@pytest.mark.parametrize(
    "report",
    [
        {},
        [],
        {"guards": {"skipped": "no prompts are held out"}},
        {"guards": None},
        {"guards": {"samples": [{"prompt": "of an earlier release", "answer": "b", "errors": []}]}},
    ],
)
def test_a_report_without_answers_compares_nothing(agent: Agent, report: Any) -> None:
    measured(agent, report)
    assert newest_answers(agent) is None


@pytest.mark.database
def test_the_version_in_use_comes_before_newer_ones(agent: Agent) -> None:
    first = measured(agent, REPORT, "v1", 1)
    second = measured(agent, REPORT, "v2", 2)
    assert (compared := newest_answers(agent)) is not None
    assert (compared.evaluation, compared.is_in_use) == (second, False)
    use(first.version)
    assert (compared := newest_answers(agent)) is not None
    assert (compared.evaluation, compared.is_in_use) == (first, True)
    assert (compared := newest_answers(agent, "V2")) is not None
    assert compared.evaluation == second
    assert newest_answers(agent, "v3") is None


# --- the page ----------------------------------------------------------------------------------------------------------


def test_both_answers_stand_side_by_side_as_escaped_text(staff: Client, agent: Agent) -> None:
    evil = {
        "prompt": "<b>why</b>",
        "base": {"answer": "<script>alert(1)</script>", "errors": []},
        "new": {"answer": "<img src=x>", "errors": []},
    }
    use(measured(agent, {"guards": {"samples": [evil, *SAMPLES]}}).version)
    text = staff.get(PAGE).content.decode()
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text
    assert not [markup for markup in ("<b>why", "<script>alert", "<img src=x") if markup in text]
    assert "Air scatters blue light." in text
    assert "in use" in text
    assert "(It said nothing.)" in text


@pytest.mark.database
def test_without_answers_it_says_where_they_come_from(staff: Client, agent: Agent) -> None:
    assert "No version of support-chat was measured" in staff.get(PAGE).content.decode()
    assert "No evaluation of version v9" in staff.get(PAGE, {"version": "v9"}).content.decode()


def test_the_pages_of_the_run_and_of_the_agent_lead_to_it(staff: Client, agent: Agent) -> None:
    version = measured(agent, REPORT).version
    run = make_run(agent, version=version)
    assert f'href="{PAGE}?version=v40"' in staff.get(f"/runs/{run.pk}/").content.decode()
    for address in ("/", "/try/support-chat/"):
        assert f'href="{PAGE}"' in staff.get(address).content.decode()


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


def read(agent: Agent, document: Any) -> GatewayQuestion:
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
