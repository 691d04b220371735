"""What a rater is asked about, by what the source knows of its answers."""

import json
from typing import Any
from urllib.parse import parse_qs

import pytest
from django.contrib.auth.models import User
from django.test import Client

from rl.collect.feedback.answer_forms import AnswerForm, Field
from rl.models import Agent, Feedback, Trace
from rl.web import rating_filters, rating_items
from rl.web.rating_filters import Filter, Selection
from rl.web.rating_items import CHARACTERS, MOST_CHARACTERS, MOST_ITEMS, STEPS, Excerpt, controls_of, likely_values
from tests.conftest import make_trace

pytestmark = pytest.mark.database


ADDRESS = "/rate/support-chat/"
EVIL = '"><script>alert(1)</script>'
ANSWERS = {
    "load": {"topic": "energy", "planned": True, "forced": False},
    "heat": {"topic": "hvac", "planned": False, "forced": True},
    "peak": {"topic": "energy", "planned": False, "forced": True},
}
CLOSED = AnswerForm(values=("Cards", "cash", "identity"))
INVOICE = AnswerForm(fields=(Field("status", "select", ("open",)), Field("paid", "checkbox"), Field("sum", "number")))


@pytest.fixture(autouse=True)
def of_a_source(monkeypatch: pytest.MonkeyPatch) -> None:
    filters = (Filter("topic"), Filter("choice", flags=("planned", "forced")))
    monkeypatch.setattr(rating_filters, "FILTERS", {"simulation": filters})


@pytest.fixture
def answers(agent: Agent) -> list[Trace]:
    made = [make_trace(agent, name, source="simulation", details=details) for name, details in ANSWERS.items()]
    return [*made, make_trace(agent, "another")]


@pytest.fixture
def rater(client: Client, alice: User, answers: list[Trace]) -> Client:
    client.force_login(alice)
    return client


def question(rater: Client, query: str) -> str | None:
    items = rater.get(ADDRESS + query).context["items"]
    return items[0]["question"] if items else None


@pytest.mark.parametrize(
    ("query", "asked"),
    [
        ("", "another"),
        ("?topic=hvac", "heat"),
        ("?choice=forced", "peak"),
        ("?choice=planned", "load"),
        ("?topic=energy&choice=forced", "peak"),
        ("?topic=&choice=", "another"),
        ("?other=1&details__x=1", "another"),
        ("?topic=nothing", None),
        ("?topic=%00", None),
        ("?topic=%ED%A0%80", None),
        ("?choice=topic", None),
        ("?topic=hvac&choice=planned", None),
    ],
)
def test_the_address_says_which_answers_are_asked_about(rater: Client, query: str, asked: str | None):
    assert question(rater, query) == asked
    assert rater.get(ADDRESS + query).status_code == 200


def test_rating_goes_on_with_the_same_filters(rater: Client, answers: list[Trace]):
    query = "?topic=energy"
    for number, asked in enumerate(("peak", "load")):
        shown = rater.get(ADDRESS + query).context
        assert (shown["items"][0]["question"], shown["progress"]["done"], shown["progress"]["total"]) == (
            asked,
            number,
            2,
        )
        vote = {"claim": shown["items"][0]["claim"], "value": "1"}
        assert rater.post(ADDRESS + query, vote)["Location"] == ADDRESS + query
    page = rater.get(ADDRESS + query).content.decode()
    assert "You have rated every answer with these marks." in page
    assert f'<a href="{ADDRESS}">Go on with all answers</a>' in page
    assert question(rater, "") == "another"
    assert Feedback.objects.count() == 2


def test_a_refused_rating_leads_back_to_the_same_filters(rater: Client):
    page = rater.post(f"{ADDRESS}?topic=energy&choice=forced", {"value": "1"}).content.decode()
    assert f'href="{ADDRESS}?topic=energy&amp;choice=forced"' in page


def test_the_form_offers_the_values_that_there_are(rater: Client, agent: Agent):
    make_trace(agent, source="simulation", details={"topic": EVIL, "planned": "yes"})
    make_trace(agent, source="simulation", details={"topic": 5})
    make_trace(agent, source="simulation", details={"topic": "x" * 201})
    topic, choice = rater.get(f"{ADDRESS}?choice=forced").context["filters"]
    assert topic == {"name": "topic", "values": [EVIL, "energy", "hvac"], "value": ""}
    assert choice == {"name": "choice", "values": ("planned", "forced"), "value": "forced"}
    page = rater.get(f"{ADDRESS}?choice=forced").content.decode()
    assert "<option selected>forced</option>" in page
    assert "<script>alert" not in page


def test_an_unknown_value_stays_in_the_form_as_text(rater: Client):
    page = rater.get(ADDRESS, {"topic": EVIL})
    assert EVIL in page.context["filters"][0]["values"]
    assert "<script>alert" not in page.content.decode()
    assert "No answer of this agent has these marks." in page.content.decode()


def test_answers_of_other_sources_have_no_filters(rater: Client, answers: list[Trace]):
    Trace.objects.exclude(pk=answers[3].pk).delete()
    assert '<form class="filters"' not in rater.get(ADDRESS).content.decode()


def test_a_selection_is_an_address():
    chosen = Selection.read({"topic": "a&b=c ü", "other": "x"})
    assert parse_qs(chosen.query.removeprefix("?")) == {"topic": ["a&b=c ü"]}
    assert Selection.read({}).query == ""


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


def test_texts_lists_and_values_are_cut_and_it_says_so():
    page = Excerpt()
    assert page.text("a" * CHARACTERS) == "a" * CHARACTERS
    assert (page.first(range(STEPS)), page.cut) == ([*range(STEPS)], False)
    assert page.text("a" * (CHARACTERS + 5)).endswith("a… (5 more characters)")
    assert page.last(range(STEPS + 5)) == [*range(5, STEPS + 5)]
    assert page.cut


def test_all_texts_and_all_lists_of_a_page_together_are_bounded():
    page = Excerpt()
    texts = [page.text("a" * CHARACTERS) for _ in range(200)]
    assert [len(text.partition("…")[0]) for text in texts] == [CHARACTERS] * (MOST_CHARACTERS // CHARACTERS) + [0] * 150
    assert sum(len(page.first(range(STEPS))) for _ in range(200)) == MOST_ITEMS
    assert (page.last([1, 2]), page.cut) == ([], True)


@pytest.mark.parametrize("whole", [False, True])
def test_a_value_is_written_no_further_than_it_is_shown(whole: bool, monkeypatch):
    monkeypatch.setattr(rating_items, "JSON_PIECES", 1000)
    value: Any = json.loads("[" * 60 + "1," * 100_000 + "1" + "]" * 60)
    page = Excerpt(whole)
    shown = page.value(value)
    assert shown.endswith("…")
    assert shown.startswith("[\n  [\n    [")
    assert len(shown) < 200_000
    assert page.cut


def test_values_are_json_and_texts_are_texts():
    page = Excerpt()
    assert [page.value(value) for value in (None, "", {}, "a", {"a": [1]})] == [
        *("", "", "", "a"),
        '{\n  "a": [\n    1\n  ]\n}',
    ]
    assert not page.cut
