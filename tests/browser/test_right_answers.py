"""Answers that are right or wrong, corrected by one key, one field or one click."""

import json
from collections.abc import Iterator

import httpx
import pytest
from django.contrib.auth.models import User
from PIL import Image
from playwright.sync_api import BrowserContext, Page, expect
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from rl.models import Agent, Deployment, Feedback, Trace
from tests.browser.axe import findings
from tests.browser.conftest import Console, Film, LiveSite, sign_in
from tests.browser.test_accessibility import LOOKS
from tests.browser.test_rating_page import Shot, done, question
from tests.browser.test_try_page import ask, last
from tests.conftest import make_trace
from tests.serving.gateway.test_choosing import LlamaDouble
from tests.serving.gateway.upstream_double import running
from tests.waiting import until

pytestmark = pytest.mark.process

TEAMS = ["billing", "shipping", "legal", "returns", "press", "<b>others</b>"]
LETTERS = {"Where is my money?": "billing", "You broke it!": "legal", "Where is my parcel?": "billing"}
INVOICES = {
    "Invoice of Miller, 4.50": {
        "to": "Miller",
        "sum": 4.5,
        "paid": False,
        "status": "open",
        "lines": [1, 2],
        "tax": None,
    },
    "Invoice of Smith": {"to": "Smith", "sum": 12345678901234567890, "paid": True, "status": "late"},
}

SAID = json.dumps({"choices": [{"delta": {"content": '{"to": "Miller", "sum": 4, "paid": false}'}}]})
STREAM = f"data: {SAID}\n\ndata: [DONE]\n\n"


@pytest.fixture
def signed_in(page: Page, context: BrowserContext, live_site: LiveSite, alice: User, console: Console) -> Page:
    console.allow("Applying inline style")  # axe measures with some
    sign_in(context, live_site, alice)
    return page


@pytest.fixture
def letters(signed_in: Page, live_site: LiveSite, agent: Agent) -> Page:
    Agent.objects.filter(pk=agent.pk).update(answer_values=TEAMS)
    for text, answer in LETTERS.items():
        make_trace(agent, text, answer)
    signed_in.goto(f"{live_site.url}/rate/support-chat/")
    expect(question(signed_in)).to_have_text("Where is my parcel?")
    return signed_in


@pytest.fixture
def invoices(signed_in: Page, live_site: LiveSite, agent: Agent) -> Page:
    Agent.objects.filter(pk=agent.pk).update(answer_kind="structured")
    for number in range(10):
        document = {"to": f"Firm {number}", "sum": number, "paid": True, "status": ("open", "late")[number % 2]}
        accepted = make_trace(agent, f"Invoice {number}", json.dumps(document), source="import")
        Feedback.objects.create(
            agent=agent, trace=accepted, kind="rating", rater="user:alice", scale="thumb", raw_value=1, value=1
        )
    for text, document in INVOICES.items():
        make_trace(agent, text, json.dumps(document))
    signed_in.goto(f"{live_site.url}/rate/support-chat/")
    expect(question(signed_in)).to_have_text("Invoice of Smith")
    return signed_in


def words() -> list[tuple[str, str, float | None, str]]:
    rows = Feedback.objects.filter(is_current=True, source__in=("rating_page", "try_page")).order_by("id")
    return [(event.trace.question, event.kind, event.value, event.text) for event in rows.select_related("trace")]


def look(page: Page) -> None:
    """Light and wide, dark and narrow: nothing to find, nothing wider than the screen."""
    for scheme, width in LOOKS:
        page.emulate_media(color_scheme=scheme)
        page.set_viewport_size({"width": width, "height": 800})
        assert findings(page) == []
        assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.emulate_media(color_scheme="light")
    page.set_viewport_size({"width": 1100, "height": 800})


# --- the rating page --------------------------------------------------------------------------------------------------


def test_one_key_says_right_and_one_what_would_have_been(letters: Page, screenshot: Shot) -> None:
    look(letters)
    screenshot(letters, "rating-choice")
    expect(letters.get_by_role("button", name="billing")).to_have_class("own")
    letters.keyboard.press("2")
    expect(question(letters)).to_have_text("You broke it!")
    expect(letters.locator("#decision-list .badge").first).to_have_text("shipping")
    letters.keyboard.press("Enter")
    expect(question(letters)).to_have_text("Where is my money?")
    letters.get_by_role("button", name="<b>others</b>").click()
    expect(letters.get_by_role("heading", name="All rated")).to_be_visible()
    expect(done(letters)).to_contain_text("3 of 3")
    assert words() == [
        ("Where is my parcel?", "correction", None, "shipping"),
        ("You broke it!", "rating", 1.0, ""),
        ("Where is my money?", "correction", None, "<b>others</b>"),
    ]
    letters.keyboard.press("z")
    expect(question(letters)).to_have_text("Where is my money?")
    letters.keyboard.press("1")
    expect(letters.get_by_role("heading", name="All rated")).to_be_visible()
    until(lambda: words()[-1] == ("Where is my money?", "rating", 1.0, ""))


def test_an_answer_is_wrong_though_nobody_says_what_is_right(letters: Page) -> None:
    letters.keyboard.press("d")
    expect(question(letters)).to_have_text("You broke it!")
    assert until(words) == [("Where is my parcel?", "rating", 0.0, "")]


def test_an_answer_that_is_none_of_the_set_is_not_right_by_a_slip(letters: Page) -> None:
    Trace.objects.update(response="Dear customer, …")
    letters.reload()
    letters.keyboard.press("Enter")
    expect(letters.locator("#status")).to_contain_text("none of these")
    letters.keyboard.press("5")
    assert until(words) == [("Where is my parcel?", "correction", None, "press")]


def test_the_list_of_keys_names_the_values(letters: Page) -> None:
    letters.keyboard.press("?")
    expect(letters.get_by_role("row").filter(has_text="<b>others</b>")).to_contain_text("6")
    expect(letters.get_by_role("row").filter(has_text="right, as it stands")).to_contain_text("Enter")


def test_one_field_is_changed_and_saved_as_one_correction(invoices: Page, screenshot: Shot) -> None:
    invoices.keyboard.press("Enter")
    expect(question(invoices)).to_have_text("Invoice of Miller, 4.50")
    look(invoices)
    screenshot(invoices, "rating-fields")
    expect(invoices.get_by_role("button", name="Right")).to_be_visible()
    invoices.get_by_label("sum", exact=True).fill("5.50")
    invoices.get_by_label("paid").check()
    invoices.get_by_label("status", exact=True).select_option("late")
    expect(invoices.get_by_role("button", name="Save the correction")).to_be_visible()
    invoices.get_by_label("to", exact=True).press("Enter")
    expect(invoices.get_by_role("heading", name="All rated")).to_be_visible()
    first, second = words()
    assert first == ("Invoice of Smith", "rating", 1.0, "")
    assert second[:3] == ("Invoice of Miller, 4.50", "correction", None)
    assert second[3] == '{"to": "Miller", "sum": 5.5, "paid": true, "status": "late", "lines": [1, 2], "tax": null}'


def test_what_nobody_changes_stays_and_what_was_written_comes_back(invoices: Page) -> None:
    invoices.get_by_label("status", exact=True).select_option("another …")
    invoices.keyboard.type("lost")
    invoices.keyboard.press("Enter")
    expect(question(invoices)).to_have_text("Invoice of Miller, 4.50")
    (correction,) = until(words)
    assert correction[3] == '{"to": "Smith", "sum": 12345678901234567890, "paid": true, "status": "lost"}'
    invoices.keyboard.press("z")
    expect(question(invoices)).to_have_text("Invoice of Smith")
    expect(invoices.get_by_label("status", exact=True)).to_have_value("lost")


def test_a_field_that_holds_no_json_is_told_and_nothing_is_sent(invoices: Page) -> None:
    invoices.keyboard.press("s")
    invoices.get_by_label("lines").fill("[1, 2")
    invoices.get_by_role("button", name="Save the correction").click()
    expect(invoices.locator("#status")).to_contain_text("lines: this is not JSON")
    expect(question(invoices)).to_have_text("Invoice of Miller, 4.50")
    assert words() == []


# --- the page to talk -------------------------------------------------------------------------------------------------


@pytest.fixture
def llama() -> Iterator[str]:
    """A llama.cpp server that has no opinion, but for a little one on billing."""
    double = LlamaDouble({"": {"b": 0.4, "s": 0.35, "l": 0.25}})

    async def answer(request: Request) -> Response:
        asked = httpx.Request("POST", str(request.url), content=await request.body())
        return Response(double(asked).content, media_type="application/json")

    with running(Starlette(routes=[Route("/{path:path}", answer, methods=["POST"])])) as url:
        yield url


@pytest.fixture
def talk(
    page: Page, context: BrowserContext, agent: Agent, llama: str, bob: User, site: LiveSite, console: Console
) -> Page:
    console.allow("Applying inline style")
    Agent.objects.filter(pk=agent.pk).update(answer_values=TEAMS[:3])
    Deployment.objects.create(agent=agent, target="llama_cpp", url=llama, model_name="m", alias="")
    sign_in(context, site, bob)
    page.goto(f"{site.url}/try/support-chat/")
    return page


def test_an_answer_is_corrected_by_a_click_and_a_like_question_answered_so_at_once(
    talk: Page, screenshot: Shot
) -> None:
    ask(talk, "My parcel from Berlin has not arrived")
    expect(last(talk, "chip")).to_have_text("billing")
    expect(last(talk, "answer")).to_contain_text("40 % sure")
    expect(last(talk, "values").get_by_role("button")).to_have_text(["shipping 35 %", "legal 25 %"])
    look(talk)
    talk.get_by_role("button", name="shipping").click()
    expect(last(talk, "saved")).to_have_text("Saved. Messages that read like this one are answered so from now on.")
    expect(talk.locator("#votes-text")).to_have_text("1 of 100 votes to the next training")
    assert words() == [("My parcel from Berlin has not arrived", "correction", None, "shipping")]
    look(talk)
    screenshot(talk, "try-choice")
    talk.wait_for_timeout(1000)  # the gateway looks every 0.7 seconds
    ask(talk, "My parcel from Munich has not arrived")
    expect(last(talk, "chip")).to_have_text("shipping")
    assert Trace.objects.count() == len(set(Trace.objects.values_list("session_id", flat=True)))


def test_a_correction_is_taken_back_and_a_thumb_takes_its_place(talk: Page) -> None:
    ask(talk, "My parcel has not arrived")
    talk.get_by_role("button", name="legal").click()
    expect(last(talk, "saved")).to_contain_text("Saved.")
    talk.get_by_role("button", name="legal").click()
    expect(last(talk, "saved")).to_have_text("Taken back.")
    assert words() == []
    talk.get_by_role("button", name="legal").click()
    expect(talk.get_by_role("button", name="legal")).to_have_attribute("aria-pressed", "true")
    talk.get_by_role("button", name="Good answer").click()
    expect(last(talk, "saved")).to_have_text("Thank you, saved.")
    expect(talk.get_by_role("button", name="legal")).to_have_attribute("aria-pressed", "false")
    assert words() == [("My parcel has not arrived", "rating", 1.0, "")]


def test_a_field_of_an_answer_that_is_json_is_corrected(talk: Page, agent: Agent) -> None:
    Agent.objects.filter(pk=agent.pk).update(answer_kind="structured", answer_values=[])
    talk.reload()
    trace = make_trace(agent, "Invoice of Miller", '{"to": "Miller", "sum": 4, "paid": false}')
    talk.route("**/answer/", lambda route: route.fulfill(headers={"x-ratchet-trace": str(trace.pk)}, body=STREAM))
    ask(talk, "Invoice of Miller")
    save = talk.get_by_role("button", name="Save the correction")
    expect(save).to_be_disabled()
    talk.get_by_label("sum").fill("5")
    look(talk)
    save.click()
    expect(last(talk, "saved")).to_have_text("Saved. The next training learns it.")
    talk.get_by_label("paid").check()
    talk.get_by_label("sum").press("Enter")
    until(lambda: [text for _, _, _, text in words()] == ['{"to": "Miller", "sum": 5, "paid": true}'])


def test_the_first_minute_is_an_animated_picture(talk: Page, film: Film) -> None:
    """A wrong answer, the right one by a click, and the next like question is answered rightly."""
    talk.set_viewport_size({"width": 900, "height": 560})
    film.take(talk, 1.5)
    box = talk.get_by_label("Your question")
    for word in ("My parcel ", "from Berlin ", "has not arrived"):
        box.press_sequentially(word)
        film.take(talk, 0.4)
    box.press("Enter")
    expect(last(talk, "chip")).to_have_text("billing")
    expect(last(talk, "values").get_by_role("button")).to_have_count(2)
    film.take(talk, 2.5)
    talk.get_by_role("button", name="shipping").click()
    expect(last(talk, "saved")).to_contain_text("answered so from now on")
    film.take(talk, 2.5)
    talk.wait_for_timeout(1000)  # the gateway looks every 0.7 seconds
    for word in ("My parcel ", "from Munich ", "has not arrived"):
        box.press_sequentially(word)
        film.take(talk, 0.4)
    box.press("Enter")
    expect(last(talk, "chip")).to_have_text("shipping")
    film.take(talk, 4)
    with Image.open(film.save("first-minute")) as picture:
        assert getattr(picture, "n_frames", 1) == len(film.frames)
