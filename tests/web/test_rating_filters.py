"""What a rater is asked about, by what the source knows of its answers."""

from __future__ import annotations

from urllib.parse import parse_qs

import pytest
from django.contrib.auth.models import User
from django.test import Client

from rl.models import Agent, Feedback, Trace
from rl.web import rating_filters
from rl.web.rating_filters import Filter, Selection
from tests.conftest import make_trace

pytestmark = pytest.mark.database


ADDRESS = "/rate/support-chat/"
EVIL = '"><script>alert(1)</script>'
ANSWERS = {
    "load": {"topic": "energy", "planned": True, "forced": False},
    "heat": {"topic": "hvac", "planned": False, "forced": True},
    "peak": {"topic": "energy", "planned": False, "forced": True},
}


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
