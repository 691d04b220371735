"""Which values or fields correct an agent's answers, and what a correction says."""

import json

import pytest

from rl.base.errors import UsageError
from rl.collect.feedback import answer_forms, write
from rl.collect.feedback.answer_forms import AnswerForm, Field, find_form, judge_text
from rl.models import Agent
from tests.conftest import make_trace

pytestmark = pytest.mark.django_db
PROMPT = [{"role": "user", "content": "Which team: cards, cash or identity?"}]


def accept(agent: Agent, number: int, response: str) -> None:
    trace = make_trace(agent, f"Message {number}", response)
    write.rate(trace, scale="thumb", value=1, rater="user:alice", source="test")


def closed(agent: Agent) -> AnswerForm:
    agent.answer_values = ["Cards", "cash"]
    form = find_form(agent)
    assert form is not None
    return form


def invoices(agent: Agent, **fields: object) -> AnswerForm:
    """The form of an agent that tells invoices."""
    for number in range(10):
        document = {
            "sum": number + 0.5,
            "paid": number % 2 == 0,
            "status": ("open", "late")[number % 2],
            "to": f"Firm {number}",
        }
        accept(agent, number, json.dumps({**document, "lines": [number], **fields}))
    form = find_form(agent, fresh=True)
    assert form is not None
    return form


def test_of_free_answers_there_is_no_form(agent: Agent):
    accept(agent, 1, "It arrives tomorrow.")
    assert find_form(agent) is None
    with pytest.raises(UsageError, match="neither of a closed set nor JSON"):
        judge_text(agent, "It does not.", "It arrives tomorrow.")


def test_a_set_is_asked_by_its_values_and_a_correction_is_spelled_as_there(agent: Agent):
    form = closed(agent)
    assert form.values == ("Cards", "cash")
    assert form.judge("cards", "cash") == {"value": 0.0, "text": "Cards"}
    assert form.judge("Cards", " cards. ") == {"value": 1.0}


def test_what_is_none_of_the_set_is_refused_with_what_is(agent: Agent):
    closed(agent)
    with pytest.raises(UsageError, match=r"unknown answer 'crads' \(did you mean Cards\?\)|known: Cards, cash"):
        judge_text(agent, "crads", "cash")


def test_a_list_of_a_prompt_suits_the_questions_that_have_it(agent: Agent):
    trace = make_trace(agent, PROMPT[0]["content"], "cash")
    write.correct(trace, text="cards", rater="user:alice", source="test")
    form = find_form(agent)
    assert form is not None
    assert form.suits(PROMPT, "", "cash")
    assert not form.suits([{"role": "user", "content": "How are you?"}], "", "fine")


def test_each_field_has_the_control_that_its_values_want(agent: Agent):
    assert invoices(agent).fields == (
        Field("sum", "number"),
        Field("paid", "checkbox"),
        Field("status", "select", ("late", "open")),
        Field("to", "text"),
        Field("lines", "json"),
    )


def test_an_answer_has_its_own_fields_first_and_those_that_it_lacks(agent: Agent):
    form = invoices(agent)
    shown = form.fields_of('{"extra": 1, "paid": "yes", "sum": 12345678901234567890}')
    assert [(field.name, field.control) for field in shown[:3]] == [
        ("extra", "number"),
        ("paid", "text"),
        ("sum", "json"),
    ]
    assert [field.name for field in shown[3:]] == ["status", "to", "lines"]
    assert form.suits(PROMPT, "", "no JSON at all")
    assert not form.suits(PROMPT, "", json.dumps(dict.fromkeys(map(str, range(41)), 1)))


def test_a_corrected_object_is_right_only_where_every_value_is(agent: Agent):
    form = invoices(agent)
    assert form.judge('{"b": 1, "a": true}', '{"a": true, "b": 1}') == {"value": 1.0}
    assert form.judge('{"a": 1}', '{"a": true}') == {"value": 0.0, "text": '{"a": 1}'}
    for text in ("cards", "[1]", '{"a": "' + 20_000 * "x" + '"}'):
        with pytest.raises(UsageError, match="a JSON object of at most 20000 characters"):
            form.judge(text, "{}")


def test_it_is_read_once_a_minute_and_where_an_answer_is_not_known(agent: Agent, monkeypatch: pytest.MonkeyPatch):
    now = [1000.0]
    monkeypatch.setattr(answer_forms.time, "monotonic", lambda: now[0])
    assert find_form(agent) is None
    for number in range(20):
        accept(agent, number, ("cash", "cards")[number % 2])
    assert find_form(agent) is None
    assert judge_text(agent, "cards", "cash") == {"value": 0.0, "text": "cards"}
    assert find_form(agent) is not None
    Agent.objects.all().delete()
    now[0] += answer_forms.KEPT_SECONDS + 1
    assert find_form(agent) is None
