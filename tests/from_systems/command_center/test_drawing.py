"""A simulation's entries on the rating page."""

import json
from dataclasses import asdict

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client

from rl.from_systems.command_center.drawing import LONGEST, MOST_FIGURES, TAGS, draw
from rl.models import Agent, Feedback, Trace

EVIL = "<script>alert(1)</script>"
DETAILS = {
    "scenario": "comparison",
    "fixture": "bars",
    "size": "hero",
    "category": "energy",
    "natural": True,
    "forced": False,
    "layout_context": {"heading": EVIL},
    "data_override": {
        "demoData": {"label": "Load", "unit": "kW", "valueA": 50, "valueB": -100, "parts": [{"name": "A", "v": "x"}]}
    },
}


@pytest.fixture
def rater(db) -> Client:
    user = User.objects.create_user("alice", password="x")
    user.user_permissions.add(Permission.objects.get(codename="add_feedback"))
    client = Client()
    client.force_login(user)
    return client


@pytest.fixture
def trace(db) -> Trace:
    asked = {"prompt": [{"role": "user", "content": "Load?"}], "prompt_key": "q", "response": "comparison (hero): bars"}
    agent = Agent.objects.create(name="selector")
    return Trace.objects.create(agent=agent, source="command_center", details=DETAILS, **asked)


def test_an_entry_has_a_title_marks_and_a_bar_for_each_number():
    drawing = draw(DETAILS)
    assert drawing
    assert (drawing.title, drawing.size) == ("Load (kW)", "hero")
    assert drawing.marks == ("comparison", "bars", "hero", "energy", "natural")
    assert [(f.label, f.text, f.share) for f in drawing.figures] == [
        ("valueA", "50", 0.5),
        ("valueB", "-100", 1.0),
        ("parts 1 A v", "x", None),
    ]


@pytest.mark.parametrize("name", list(DETAILS))
def test_whatever_an_entry_holds_can_be_drawn(name: str):
    nested: dict = {}
    for _ in range(50):
        nested = {"a": nested, "b": [1.5, float("nan"), 10**400, None, True]}
    values = (None, 5, "x" * 9_999, [], {}, nested, {"demoData": 5}, {"heading": nested})
    drawings = [drawing for value in values if (drawing := draw({**DETAILS, name: value}))]
    assert bool(drawings) == (name != "size")  # another size is none that can be drawn
    for drawing in drawings:
        json.dumps(asdict(drawing), allow_nan=False)
        assert len(drawing.figures) <= MOST_FIGURES
        assert all(len(figure.label) <= LONGEST and len(figure.text) <= LONGEST for figure in drawing.figures)
        assert all(0 <= figure.share <= 1 for figure in drawing.figures if figure.share is not None)
        assert max(map(len, (drawing.heading, drawing.title, *drawing.marks))) <= LONGEST


def test_the_page_draws_it_as_text_alone_and_takes_its_tags(rater: Client, trace: Trace):
    page = rater.get("/rate/selector/").content.decode()
    assert EVIL not in page
    assert "&lt;script&gt;" in page
    assert '<figure class="widget hero">' in page
    assert all(f'value="{tag}"' in page for tag in TAGS)
    assert 'value="off topic"' not in page
    item = rater.get("/rate/selector/").context["items"][0]
    assert (item["answers"][0]["drawing"]["title"], item["tags"]) == ("Load (kW)", list(TAGS))
    form = {"claim": item["claim"], "value": "0", "tags": ["ugly", "wrong-chart-type"]}
    assert rater.post("/rate/selector/", form).status_code == 302
    assert Feedback.objects.get().tags == ["ugly", "wrong-chart-type"]


@pytest.mark.database
@pytest.mark.parametrize(
    ("query", "is_asked"),
    [
        ("?category=energy&scenario=comparison&choice=natural", True),
        ("?category=hvac", False),
        ("?scenario=kpi", False),
        ("?choice=forced", False),
    ],
)
def test_entries_are_filtered_by_category_scenario_and_choice(rater: Client, trace: Trace, query: str, is_asked: bool):
    assert bool(rater.get(f"/rate/selector/{query}").context["items"]) == is_asked
    filters = rater.get("/rate/selector/").context["filters"]
    assert {entry["name"]: list(entry["values"]) for entry in filters} == {
        "category": ["energy"],
        "scenario": ["comparison"],
        "choice": ["natural", "forced"],
    }


@pytest.mark.database
def test_other_answers_stay_text_with_the_usual_tags(rater: Client, trace: Trace):
    Trace.objects.update(source="api")
    page = rater.get("/rate/selector/").content.decode()
    assert "<figure" not in page
    assert 'value="off topic"' in page
    claim = trace.claims.get().pk
    assert rater.post("/rate/selector/", {"claim": claim, "value": "0", "tags": ["ugly"]}).status_code == 400
