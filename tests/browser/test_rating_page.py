"""The rating page as a person uses it: by key, by click, on a phone, with the connection lost."""

from __future__ import annotations

import pytest
from django.conf import settings
from django.contrib.auth.models import User
from django.test import Client
from playwright.sync_api import BrowserContext, Page, expect

from rl.models import Agent, Feedback, Trace
from tests.browser.conftest import Console, LiveSite
from tests.conftest import make_trace

QUESTIONS = {
    "Where is my parcel?": "It left our warehouse this morning.\nIt arrives tomorrow before noon.",
    "Can it go to my neighbour?": "Yes. Name the neighbour in the app until 8 in the morning.",
    "And if nobody is at home?": "Then it waits for seven days in the shop named on the card.",
}


def sign_in(context: BrowserContext, site: LiveSite, user: User) -> None:
    client = Client()
    client.force_login(user)
    cookie = client.cookies[settings.SESSION_COOKIE_NAME].value
    context.add_cookies([{"name": settings.SESSION_COOKIE_NAME, "value": cookie, "url": site.url}])


@pytest.fixture
def answers(live_site: LiveSite, agent: Agent) -> list[Trace]:
    return [make_trace(agent, question, answer) for question, answer in QUESTIONS.items()]


@pytest.fixture
def desk(page: Page, context: BrowserContext, live_site: LiveSite, answers: list[Trace], alice: User) -> Page:
    sign_in(context, live_site, alice)
    page.goto(f"{live_site.url}/rate/")
    expect(page.locator("#question")).to_have_text("Where is my parcel?")
    return page


def values() -> list[float | None]:
    return list(Feedback.objects.filter(is_current=True).order_by("id").values_list("value", flat=True))


def test_a_queue_is_rated_by_keys_alone(desk: Page, screenshot) -> None:
    question, done = desk.locator("#question"), desk.locator("#progress-text")
    desk.keyboard.press("u")
    expect(question).to_have_text("Can it go to my neighbour?")
    expect(done).to_have_text("1 of 3")
    screenshot(desk, "rating-page")
    desk.keyboard.press("s")
    expect(question).to_have_text("And if nobody is at home?")
    expect(desk.get_by_role("status")).to_have_text("Skipped. It comes again at the end.")
    expect(desk.locator("#rate")).to_have_attribute("aria-busy", "false")
    desk.keyboard.press("2")
    expect(question).to_have_text("Can it go to my neighbour?")
    expect(done).to_have_text("2 of 3")
    desk.keyboard.press("z")
    expect(question).to_have_text("And if nobody is at home?")
    expect(done).to_have_text("1 of 3")
    assert values() == [1.0]
    desk.keyboard.press("1")
    expect(done).to_have_text("2 of 3")
    desk.keyboard.press("d")
    expect(desk.get_by_role("heading", name="All rated")).to_be_visible()
    expect(done).to_contain_text("3 of 3")
    assert values() == [1.0, 1.0, 0.0]
    assert Feedback.objects.filter(kind="retraction").count() == 1


def test_the_next_answer_is_there_at_once(desk: Page) -> None:
    desk.wait_for_load_state("networkidle")
    seconds = desk.evaluate(
        """() => {
            const question = document.querySelector("#question"), start = performance.now();
            document.body.dispatchEvent(new KeyboardEvent("keydown", { key: "u", bubbles: true }));
            return question.textContent === "Can it go to my neighbour?" ? (performance.now() - start) / 1000 : 99;
        }"""
    )
    assert seconds < 0.15
    expect(desk.locator("#progress-text")).to_have_text("1 of 3")


def test_tags_and_note_go_with_the_rating_and_are_empty_afterwards(desk: Page) -> None:
    desk.get_by_label("incomplete").check()
    desk.keyboard.press("n")
    desk.keyboard.type("u d 1 2: keys are text here")
    desk.keyboard.press("Escape")
    desk.keyboard.press("d")
    expect(desk.locator("#progress-text")).to_have_text("1 of 3")
    event = Feedback.objects.get()
    assert (event.value, event.tags, event.notes) == (0.0, ["incomplete"], "u d 1 2: keys are text here")
    expect(desk.get_by_label("incomplete")).not_to_be_checked()
    expect(desk.get_by_label("Note")).to_have_value("")


def test_an_older_rating_is_undone_from_the_list(desk: Page) -> None:
    for done in (1, 2):
        desk.get_by_role("button", name="Good").click()
        expect(desk.locator("#progress-text")).to_have_text(f"{done} of 3")
    desk.get_by_role("listitem").filter(has_text="Where is my parcel?").get_by_role("button", name="Undo").click()
    expect(desk.locator("#question")).to_have_text("Where is my parcel?")
    assert values() == [1.0]


@pytest.mark.parametrize(
    "event",
    [
        {"repeat": True},
        {"ctrlKey": True},
        {"metaKey": True},
        {"altKey": True},
        {"modifierAltGraph": True},
        {"isComposing": True},
    ],
    ids=lambda event: next(iter(event)),
)
def test_a_key_with_a_modifier_or_held_down_rates_nothing(desk: Page, event: dict) -> None:
    desk.evaluate(
        "(more) => document.body.dispatchEvent(new KeyboardEvent('keydown', { key: 'u', bubbles: true, ...more }))",
        event,
    )
    expect(desk.locator("#question")).to_have_text("Where is my parcel?")
    assert values() == []


def test_keys_belong_to_a_focused_control_and_to_the_open_dialog(desk: Page) -> None:
    desk.get_by_role("button", name="Skip").focus()
    desk.keyboard.press("u")
    desk.keyboard.press("Escape")
    desk.keyboard.press("?")
    expect(desk.get_by_role("dialog")).to_be_visible()
    desk.keyboard.press("u")
    desk.keyboard.press("Escape")
    expect(desk.get_by_role("dialog")).not_to_be_visible()
    expect(desk.locator("#question")).to_have_text("Where is my parcel?")
    assert values() == []


def test_the_keys_can_be_switched_off_for_good(desk: Page) -> None:
    desk.keyboard.press("?")
    desk.get_by_label("Use these keys").uncheck()
    desk.keyboard.press("Escape")
    desk.reload()
    desk.keyboard.press("u")
    expect(desk.locator("#question")).to_have_text("Where is my parcel?")
    assert values() == []


def test_a_lost_connection_brings_the_answer_and_the_note_back(desk: Page, context, console: Console) -> None:
    console.allow("ERR_INTERNET_DISCONNECTED")
    desk.wait_for_load_state("networkidle")
    desk.get_by_label("Note").fill("Keep me.")
    context.set_offline(True)
    desk.get_by_role("button", name="Bad").click()
    expect(desk.get_by_role("status")).to_contain_text("Not saved")
    expect(desk.locator("#question")).to_have_text("Where is my parcel?")
    expect(desk.get_by_label("Note")).to_have_value("Keep me.")
    context.set_offline(False)
    desk.get_by_role("button", name="Bad").click()
    expect(desk.locator("#progress-text")).to_have_text("1 of 3")
    assert values() == [0.0]


def test_who_is_signed_out_meanwhile_is_told(desk: Page, context: BrowserContext) -> None:
    desk.wait_for_load_state("networkidle")
    context.clear_cookies(name=settings.SESSION_COOKIE_NAME)
    desk.keyboard.press("u")
    expect(desk.get_by_role("status")).to_contain_text("Not saved: You are signed out.")
    expect(desk.locator("#question")).to_have_text("Where is my parcel?")


def test_answers_are_text_and_never_markup(page: Page, context, live_site, agent, alice) -> None:
    for number in range(2):
        make_trace(agent, f"question {number}", "<img src=x onerror=alert(1)><b>bold</b>")
    sign_in(context, live_site, alice)
    page.goto(f"{live_site.url}/rate/")
    page.keyboard.press("u")
    expect(page.locator("#question")).to_have_text("question 1")
    expect(page.locator("#answer")).to_have_text("<img src=x onerror=alert(1)><b>bold</b>")
    assert page.locator("#answer *").count() == 0


def test_it_fits_a_phone_and_the_buttons_a_finger(desk: Page, screenshot) -> None:
    desk.set_viewport_size({"width": 375, "height": 700})
    assert desk.evaluate("document.documentElement.scrollWidth") <= 375
    for name in ("Good", "Bad", "Skip"):
        box = desk.get_by_role("button", name=name).bounding_box()
        assert box is not None
        assert box["height"] >= 44
        assert box["y"] + box["height"] <= 700
    screenshot(desk, "rating-page-phone")


def test_without_javascript_it_is_a_form(browser, live_site, answers, alice) -> None:
    context = browser.new_context(java_script_enabled=False)
    sign_in(context, live_site, alice)
    page = context.new_page()
    page.goto(f"{live_site.url}/rate/")
    page.get_by_role("button", name="Good").click()
    expect(page.locator("#question")).to_have_text("Can it go to my neighbour?")
    page.get_by_role("button", name="Undo").click()
    expect(page.locator("#question")).to_have_text("Where is my parcel?")
    context.close()
    assert values() == []


def test_a_filter_stays_while_one_rates(
    page: Page, context: BrowserContext, live_site: LiveSite, agent: Agent, alice: User, screenshot
) -> None:
    for number, category in enumerate(("energy", "hvac", "energy", "alerts", "energy")):
        widget = {
            "scenario": "kpi",
            "fixture": f"kpi-{number}",
            "size": "normal",
            "natural": True,
            "category": category,
        }
        data = {"demoData": {"label": f"Load {number}", "unit": "kW", "value": 40 + number}}
        details = {**widget, "data_override": data}
        make_trace(agent, f"{category} {number}?", "kpi", source="command_center", details=details)
    sign_in(context, live_site, alice)
    page.goto(f"{live_site.url}/rate/support-chat/")
    page.get_by_label("Category").select_option("energy")
    page.get_by_role("button", name="Show").click()
    expect(page.locator("#progress-text")).to_have_text("0 of 3")
    screenshot(page, "rating-filters")
    for question in ("energy 0?", "energy 2?", "energy 4?"):
        expect(page.locator("#question")).to_have_text(question)
        expect(page.locator("#rate")).not_to_have_attribute("aria-busy", "true")
        page.keyboard.press("u")
    expect(page.get_by_text("You have rated every answer with these marks.")).to_be_visible()
    page.get_by_role("link", name="Go on with all answers").click()
    expect(page.locator("#question")).to_have_text("hvac 1?")
    assert values() == [1.0, 1.0, 1.0]
