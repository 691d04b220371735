"""The rating page in German, by hand: what scripts say is German too, and nothing is wider than the screen."""

import pytest
from django.contrib.auth.models import User
from playwright.sync_api import BrowserContext, Page, expect

from rl.models import Agent, AnswerPair, Feedback, RatingQueue
from tests.browser.conftest import LiveSite, sign_in
from tests.conftest import make_trace

pytestmark = pytest.mark.process


CUT = """[...document.querySelectorAll("button, .button, .badge")]
    .filter((shown) => shown.scrollWidth > shown.clientWidth + 1).map((shown) => shown.innerText)"""
"""Texts that do not fit into what they stand in."""


@pytest.fixture
def desk(page: Page, context: BrowserContext, live_site: LiveSite, agent: Agent, alice: User) -> Page:
    """In Deutsch, which was chosen at the foot of the page."""
    for number in range(3):
        make_trace(agent, f"Wo ist Paket {number}?", "Es kommt morgen.")
    sign_in(context, live_site, alice)
    page.goto(f"{live_site.url}/rate/support-chat/")
    page.get_by_role("button", name="Deutsch").click()
    expect(page.locator("html")).to_have_attribute("lang", "de")
    page.wait_for_load_state("networkidle")
    return page


def words(page: Page, selector: str) -> list[str]:
    return [text.strip() for text in page.locator(selector).all_inner_texts()]


def test_somebody_rates_in_german(desk: Page) -> None:
    assert words(desk, ".votes .vote .word, .votes .vote[data-command=skip]") == ["Schlecht", "Überspringen\nS", "Gut"]
    desk.keyboard.press("u")
    expect(desk.locator("#status")).to_have_text("Als gut bewertet.")
    expect(desk.locator("#decision-list .badge")).to_have_text("Gut")
    desk.keyboard.press("s")
    expect(desk.locator("#status")).to_have_text("Übersprungen. Kommt am Ende wieder.")
    expect(desk.locator("#progress-text")).to_contain_text("1 von 3")
    desk.keyboard.press("?")
    expect(desk.get_by_role("dialog")).to_contain_text("Diese Tasten benutzen")
    assert Feedback.objects.get().value == 1


@pytest.mark.parametrize("width", [1280, 375])
@pytest.mark.parametrize("rubric", RatingQueue.Rubric.values)
@pytest.mark.parametrize("language", ["Deutsch", "Español"])
def test_longer_words_fit(desk: Page, live_site: LiveSite, rubric: str, width: int, language: str) -> None:
    desk.set_viewport_size({"width": width, "height": 800})
    agent = Agent.objects.get()
    RatingQueue.objects.create(agent=agent, name="experts", rubric=rubric)
    left, right = agent.traces.all()[:2]
    AnswerPair.objects.create(agent=agent, left=left, right=right, origin=AnswerPair.Origin.SECOND)
    desk.get_by_role("button", name=language).click()
    desk.goto(f"{live_site.url}/rate/support-chat/experts/")
    desk.wait_for_load_state("networkidle")
    expect(desk.locator(".vote").first).to_be_visible()
    assert desk.evaluate("document.documentElement.scrollWidth") <= width
    assert desk.evaluate(CUT) == []


def test_the_choice_holds_on_other_pages_until_another_is_made(desk: Page, live_site: LiveSite) -> None:
    desk.goto(f"{live_site.url}/try/support-chat/")
    expect(desk.get_by_role("heading", level=1)).to_have_text("support-chat")
    expect(desk.locator("#send")).to_have_text("Senden")
    desk.get_by_role("button", name="English").click()
    expect(desk.locator("#send")).to_have_text("Send")
    expect(desk).to_have_url(f"{live_site.url}/try/support-chat/")
