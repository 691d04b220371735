"""The demo page on one origin, its widgets rating on another: the real site, database and widget."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from rl.models import Agent, ApiKey, Feedback, Trace
from tests.browser.conftest import Console, LiveSite
from tests.conftest import make_trace

pytestmark = pytest.mark.process


@pytest.fixture
def answers(live_site: LiveSite, agent: Agent, settings: Any) -> list[Trace]:
    settings.DEBUG = True  # the demo page exists in development only
    texts = {
        "Where is my parcel?": "It left our warehouse this morning and arrives tomorrow before noon.",
        "Can it go to my neighbour?": "Yes. Name the neighbour in the app until 8 in the morning.",
        "And if nobody is at home?": "Then it waits for seven days in the shop named on the card.",
    }
    other = "It is at the depot and comes the day after tomorrow."
    make_trace(agent, "Where is my parcel?", other)
    return [make_trace(agent, question, answer) for question, answer in texts.items()]


def publishable_key(*origins: str) -> str:
    return ApiKey.create(name="demo", kind=ApiKey.Kind.PUBLISHABLE, allowed_origins=list(origins))[1]


def test_ratings_from_the_demo_page_reach_the_database(
    page: Page, live_site: LiveSite, answers: list[Trace], screenshot: Callable[[Page, str], Path]
) -> None:
    page.goto(f"{live_site.url}/demo/?key={publishable_key(live_site.url)}")
    page.get_by_role("button", name="Not helpful").click()
    page.get_by_role("checkbox", name="Too long").check()
    page.get_by_role("radio", name="4 of 5 stars").click()
    page.get_by_role("radio", name="7 of 10", exact=True).click()
    page.get_by_role("textbox", name="Correct this answer").fill("It waits for ten days in the shop on the card.")
    page.get_by_role("button", name="Send correction").click()
    page.get_by_role("button", name="Left is better").click()
    for status in page.get_by_role("status").all():
        expect(status).to_have_text("Thank you, saved.")
    picked = Feedback.objects.get(kind="comparison")
    left = page.get_by_role("region", name="Left answer").inner_text()
    assert (picked.choice, picked.trace.response) == ("left", left)
    assert Feedback.objects.get(kind="correction").text.startswith("It waits for ten days")
    current = Feedback.objects.filter(kind="rating", is_current=True)
    assert sorted(current.values_list("scale", "value")) == [("score", 0.7), ("stars", 0.75), ("thumb", 0.0)]
    assert current.get(scale="thumb").tags == ["Too long"]
    page.set_viewport_size({"width": 900, "height": 1500})
    page.evaluate("scrollTo(0, 0)")
    screenshot(page, "widget")


def test_the_same_press_withdraws_the_rating(page: Page, live_site: LiveSite, answers: list[Trace]) -> None:
    page.goto(f"{live_site.url}/demo/?key={publishable_key(live_site.url)}")
    helpful = page.get_by_role("button", name="Helpful", exact=True)
    helpful.click()
    expect(helpful).to_have_attribute("aria-pressed", "true")
    expect(page.get_by_role("status").first).to_have_text("Thank you, saved.")
    helpful.click()
    expect(page.get_by_role("status").first).to_have_text("Rating removed.")
    assert not Feedback.objects.filter(kind=Feedback.Kind.RATING, is_current=True).exists()


def test_a_key_for_another_page_is_refused_in_words(
    page: Page, console: Console, live_site: LiveSite, answers: list[Trace]
) -> None:
    console.allow("Failed to load resource.*403")
    publishable_key(live_site.url)  # this origin is known to the server, but not for the key in use
    page.goto(f"{live_site.url}/demo/?key={publishable_key('https://shop.example')}")
    page.get_by_role("button", name="Helpful", exact=True).click()
    expect(page.get_by_role("status").first).to_have_text("This page may not rate.")
    assert Feedback.objects.count() == 0


def test_the_demo_page_asks_for_a_key(page: Page, live_site: LiveSite, answers: list[Trace]) -> None:
    page.goto(f"{live_site.url}/demo/")
    expect(page.get_by_role("alert")).to_contain_text("Add a publishable key")


def test_the_demo_page_fits_a_phone(page: Page, live_site: LiveSite, answers: list[Trace]) -> None:
    page.set_viewport_size({"width": 375, "height": 740})
    page.goto(f"{live_site.url}/demo/?key={publishable_key(live_site.url)}")
    page.get_by_role("button", name="Not helpful").click()
    assert page.evaluate("document.documentElement.scrollWidth") <= 375
    smallest = page.evaluate("""() => Math.min(...[...document.querySelectorAll("ratchet-feedback")]
        .flatMap((widget) => [...widget.shadowRoot.querySelectorAll("button:not([hidden] *)")])
        .map((button) => button.getBoundingClientRect()).map(({ width, height }) => Math.min(width, height))
        .filter((size) => size > 0))""")
    assert smallest >= 44
