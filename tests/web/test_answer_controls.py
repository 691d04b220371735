"""What a page gets to correct an answer with."""

from __future__ import annotations

from typing import Any

import pytest

from rl.collect.feedback.answer_forms import AnswerForm, Field
from rl.models import Trace
from rl.web.answer_controls import controls_of, likely_values

CLOSED = AnswerForm(values=("Cards", "cash", "identity"))
INVOICE = AnswerForm(fields=(Field("status", "select", ("open",)), Field("paid", "checkbox"), Field("sum", "number")))


def answer(response: str, **fields: Any) -> Trace:
    return Trace(prompt=[{"role": "user", "content": "?"}], response=response, **fields)


def test_an_answer_of_a_set_is_named_as_the_set_spells_it():
    assert controls_of(CLOSED, answer("cards."), "") == {"kind": "closed", "answer": "Cards"}
    assert controls_of(CLOSED, answer("Ask somebody."), "") == {"kind": "closed", "answer": ""}


def test_a_call_of_a_tool_is_judged_by_a_thumb_alone():
    assert controls_of(CLOSED, answer("cards", tool_calls=[{"name": "send"}]), "") is None
    assert controls_of(None, answer("cards"), "") is None


def test_each_field_has_its_value_and_what_an_empty_one_stands_for():
    shown = controls_of(INVOICE, answer('{"status": "late", "paid": null, "note": ""}'), "")
    assert shown is not None
    rows = [(row["name"], row["control"], row["options"], row["value"], row["empty"]) for row in shown["fields"]]
    assert rows == [
        ("status", "select", ["open", "late"], "late", '""'),
        ("paid", "checkbox", [], "", "null"),
        ("note", "text", [], "", '""'),
        ("sum", "number", [], "", ""),
    ]


def test_the_likeliest_value_stands_first_with_its_share():
    trace = answer("cash", details={"chosen": {"shares": {"cash": 0.7, "identity": 0.2}}})
    shown = [("cash", 0.7), ("identity", 0.2), ("Cards", None)]
    assert [(value["text"], value["share"]) for value in likely_values(CLOSED, trace)] == shown
    assert likely_values(None, trace) == []


@pytest.mark.parametrize(
    "chosen", ["x", 7, None, {"shares": [1]}, {"shares": {"cash": "<b>", "Cards": 7.0, "identity": True}}]
)
def test_what_others_wrote_into_the_details_is_no_share(chosen: Any):
    values = likely_values(CLOSED, answer("cash", details={"chosen": chosen}))
    assert [value["share"] for value in values] == [None, None, None]
