"""The rating page as a person uses it: by key, by click, on a phone, with the connection lost, two people at once."""

from collections.abc import Callable
from pathlib import Path

import pytest
from django.conf import settings
from django.contrib.auth.models import User
from playwright.sync_api import BrowserContext, Page, expect

from rl.models import Agent, AnswerPair, Claim, Feedback, RatingQueue, Trace
from tests.admin.records import make_version
from tests.browser.conftest import Console, LiveSite, sign_in
from tests.conftest import make_trace

pytestmark = pytest.mark.process


Shot = Callable[[Page, str], Path]

QUESTIONS = {
    "And if nobody is at home?": "Then it waits for **seven days** in the shop named on the card.",
    "Can it go to my neighbour?": "Yes. Name the neighbour in the app until 8 in the morning.",
    "Where is my parcel?": "It left our warehouse this morning.\nIt arrives tomorrow before noon.",
}
"""The newest is asked about first."""
HELD = 50
"""Milliseconds that a key is down: the same one comes again later than a worn keyboard would send it."""
LONG = "\n\n".join(f"{number}. Look at the card, and bring it with you to the shop." for number in range(1, 40))


@pytest.fixture
def answers(live_site: LiveSite, agent: Agent) -> list[Trace]:
    return [make_trace(agent, question, answer) for question, answer in QUESTIONS.items()]


@pytest.fixture
def signed_in(page: Page, context: BrowserContext, live_site: LiveSite, alice: User) -> Page:
    sign_in(context, live_site, alice)
    return page


@pytest.fixture
def desk(signed_in: Page, live_site: LiveSite, answers: list[Trace]) -> Page:
    signed_in.goto(f"{live_site.url}/rate/support-chat/")
    expect(question(signed_in)).to_have_text("Where is my parcel?")
    return signed_in


def question(page: Page):
    return page.locator("#question")


def done(page: Page):
    return page.locator("#progress-text")


def open_queue(page: Page, site: LiveSite, queue: RatingQueue) -> None:
    page.goto(f"{site.url}/rate/support-chat/{queue.name}/")
    page.wait_for_load_state("networkidle")


def values() -> list[float | None]:
    rows = Feedback.objects.filter(is_current=True, kind=Feedback.Kind.RATING)
    return list(rows.order_by("id").values_list("value", flat=True))


def press(page: Page, times: int, key: str, pause: int) -> None:
    """From within the page, so that the pauses are what they are said to be."""
    page.evaluate(
        """async ([times, key, pause]) => {
            for (let number = 0; number < times; number++) {
                document.body.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true }));
                await new Promise((resolve) => setTimeout(resolve, pause));
            }
        }""",
        [times, key, pause],
    )


def test_a_queue_is_rated_by_keys_alone_and_decisions_and_skips_are_undone(desk: Page, screenshot: Shot) -> None:
    desk.keyboard.press("u")
    expect(question(desk)).to_have_text("Can it go to my neighbour?")
    expect(done(desk)).to_have_text("1 of 3")
    screenshot(desk, "rating-page")
    desk.keyboard.press("s")
    expect(question(desk)).to_have_text("And if nobody is at home?")
    expect(desk.locator("#answers strong")).to_have_text("seven days")
    expect(desk.locator("#status")).to_have_text("Skipped. It comes again at the end.")
    expect(desk.locator("#decision-list .badge").first).to_have_text("Skipped")
    desk.keyboard.press("z", delay=HELD)
    expect(question(desk)).to_have_text("Can it go to my neighbour?")
    desk.keyboard.press("z")
    expect(question(desk)).to_have_text("Where is my parcel?")
    expect(done(desk)).to_have_text("0 of 3")
    assert values() == []
    for key in ("1", "2", "d"):
        desk.keyboard.press(key)
    expect(desk.get_by_role("heading", name="All rated")).to_be_visible()
    expect(done(desk)).to_contain_text("3 of 3")
    assert values() == [1.0, 0.0, 0.0]
    assert Feedback.objects.filter(kind="retraction").count() == 1
    desk.get_by_role("listitem").filter(has_text="Where is my parcel?").get_by_role("button", name="Undo").click()
    expect(question(desk)).to_have_text("Where is my parcel?")
    expect(done(desk)).to_contain_text("2 of 3")
    desk.reload()
    desk.keyboard.press("Backspace")
    expect(question(desk)).not_to_have_text("Where is my parcel?")
    expect(done(desk)).to_contain_text("1 of 3")


def test_from_the_last_decisions_one_becomes_a_gold_item(
    page: Page, context: BrowserContext, live_site: LiveSite, agent: Agent, bob: User
) -> None:
    make_trace(agent)
    sign_in(context, live_site, bob)
    page.goto(f"{live_site.url}/rate/support-chat/")
    expect(question(page)).to_have_text("Where is my parcel?")
    page.keyboard.press("2")
    expect(page.get_by_role("listitem")).to_contain_text("Bad")
    with context.expect_page() as opened:
        page.get_by_role("listitem").get_by_role("link", name="What happened").click()
    opened.value.get_by_role("button", name="My decision is the right answer").click()
    expect(opened.value.get_by_text("This is a gold item")).to_be_visible()
    opened.value.get_by_role("link", name="All gold items").click()
    expect(opened.value.get_by_role("button", name="Remove the gold item")).to_be_visible()


def test_a_double_click_is_one_decision(desk: Page) -> None:
    desk.get_by_role("button", name="Good").dblclick()
    expect(done(desk)).to_have_text("1 of 3")
    expect(question(desk)).to_have_text("Can it go to my neighbour?")
    desk.wait_for_load_state("networkidle")
    assert values() == [1.0]


@pytest.mark.parametrize("on", ["body", "[data-command=good]"])
def test_a_key_that_chatters_or_is_held_down_is_one_decision(desk: Page, on: str) -> None:
    desk.evaluate(
        """([on, key]) => {
            const echoes = [[1000, false], [1030, false], [1060, false], [1560, true], [1590, true]]; // milliseconds
            for (const [at, repeat] of echoes) {
                const event = new KeyboardEvent("keydown", { key, repeat, bubbles: true, cancelable: true });
                Object.defineProperty(event, "timeStamp", { value: at });
                const node = document.querySelector(on);
                if (node.dispatchEvent(event) && on !== "body") node.click(); // as a browser does for Enter
            }
        }""",
        [on, "u" if on == "body" else "Enter"],
    )
    expect(done(desk)).to_have_text("1 of 3")
    expect(question(desk)).to_have_text("Can it go to my neighbour?")
    desk.wait_for_load_state("networkidle")
    assert values() == [1.0]


def test_ten_presses_50_ms_apart_are_ten_decisions(signed_in: Page, live_site: LiveSite, agent: Agent) -> None:
    for number in range(14):
        make_trace(agent, f"question {number}", f"answer {number}")
    signed_in.goto(f"{live_site.url}/rate/support-chat/")
    signed_in.wait_for_load_state("networkidle")
    press(signed_in, 10, "u", 50)
    expect(done(signed_in)).to_contain_text("10 of 14")
    assert values() == [1.0] * 10
    milliseconds = [
        signed_in.evaluate(
            """async (pause) => {
                await new Promise((resolve) => setTimeout(resolve, pause));
                const before = document.querySelector("#question").textContent, start = performance.now();
                document.body.dispatchEvent(new KeyboardEvent("keydown", { key: "u", bubbles: true }));
                document.querySelector("#question").getBoundingClientRect();
                return document.querySelector("#question").textContent === before ? 9999 : performance.now() - start;
            }""",
            HELD,
        )
        for _ in range(3)
    ]
    assert min(milliseconds) < 50
    assert max(milliseconds) < 9999


def test_tags_and_note_go_with_the_decision(desk: Page) -> None:
    desk.keyboard.press("t")
    expect(desk.get_by_label("wrong")).to_be_focused()
    desk.get_by_label("incomplete").check()
    desk.locator("#notes").fill("")
    desk.keyboard.type("u d 1 2: keys are text here")
    desk.keyboard.press("Control+Enter")
    expect(desk.locator("#status")).to_contain_text("Now good, bad")
    desk.wait_for_timeout(HELD)  # the same key was typed a moment ago
    desk.keyboard.press("d")
    expect(done(desk)).to_have_text("1 of 3")
    event = Feedback.objects.get()
    assert (event.value, event.tags, event.notes) == (0.0, ["incomplete"], "u d 1 2: keys are text here")
    expect(desk.get_by_label("incomplete")).not_to_be_checked()
    expect(desk.locator("#notes")).to_have_value("")
    desk.keyboard.press("z")
    expect(desk.locator("#notes")).to_have_value("u d 1 2: keys are text here")
    expect(desk.get_by_label("incomplete")).to_be_checked()


def test_keys_do_nothing_where_they_are_not_meant(desk: Page) -> None:
    modifiers = ("repeat", "ctrlKey", "metaKey", "altKey", "modifierAltGraph", "isComposing")
    for name in modifiers:
        desk.evaluate(
            "(name) => document.body.dispatchEvent(new KeyboardEvent('keydown', {key: 'u', bubbles: true, [name]: true}))",
            name,
        )
    desk.get_by_role("button", name="Skip").focus()
    desk.keyboard.press("u")
    desk.keyboard.press("Escape")
    desk.keyboard.press("?")
    expect(desk.get_by_role("dialog")).to_be_visible()
    desk.keyboard.press("u")
    desk.keyboard.press("Escape")
    expect(desk.get_by_role("dialog")).not_to_be_visible()
    expect(question(desk)).to_have_text("Where is my parcel?")
    assert not Claim.objects.exclude(state="claimed").exists()


def test_a_key_can_be_changed_and_all_can_be_off(desk: Page, screenshot: Shot) -> None:
    desk.keyboard.press("?")
    desk.get_by_role("button", name="Change the key: good").click()
    desk.keyboard.press("s")
    expect(desk.get_by_role("dialog")).to_contain_text("S is “skip; it comes again at the end”. Choose another.")
    desk.get_by_role("button", name="Change the key: good").click()
    desk.keyboard.press("g")
    screenshot(desk, "rating-keys")
    desk.keyboard.press("Escape")
    desk.reload()
    desk.keyboard.press("u")
    expect(desk.get_by_role("button", name="Good")).to_have_text("Good G")
    desk.keyboard.press("g")
    expect(done(desk)).to_have_text("1 of 3")
    desk.keyboard.press("?")
    desk.get_by_label("Use these keys").uncheck()
    desk.keyboard.press("Escape")
    desk.reload()
    desk.keyboard.press("g")
    expect(question(desk)).to_have_text("Can it go to my neighbour?")
    assert values() == [1.0]


def test_offline_decisions_wait_survive_a_reload_and_are_undone(desk: Page, context: BrowserContext, console: Console):
    console.allow("ERR_INTERNET_DISCONNECTED|ERR_FAILED")
    desk.wait_for_load_state("networkidle")
    context.set_offline(True)
    for key in ("u", "s", "d"):
        desk.keyboard.press(key)
    expect(desk.locator("#waiting")).to_have_text("3 to send")
    expect(desk.locator("#status")).to_contain_text("No connection.")
    desk.keyboard.press("z")
    expect(question(desk)).to_have_text("And if nobody is at home?")
    expect(desk.locator("#waiting")).to_have_text("2 to send")
    assert values() == []
    stop = "**/decisions/"
    context.route(stop, lambda route: route.abort())
    context.set_offline(False)
    desk.reload()
    expect(desk.locator("#waiting")).to_have_text("2 to send")
    expect(question(desk)).to_have_text("And if nobody is at home?")
    context.unroute(stop)
    desk.keyboard.press("d")
    expect(done(desk)).to_contain_text("2 of 3")
    expect(desk.locator("#waiting")).to_be_empty()
    assert values() == [1.0, 0.0]


def test_an_item_that_is_refused_comes_back_with_what_was_written(
    desk: Page, context: BrowserContext, console: Console
) -> None:
    desk.wait_for_load_state("networkidle")
    desk.evaluate("document.querySelector('[name=tags]').value = 'unheard of'")
    desk.locator("[name=tags]").first.check()
    desk.locator("#notes").fill("Keep me.")
    desk.get_by_role("button", name="Bad").click()
    expect(desk.locator("#status")).to_contain_text("Not saved: ")
    expect(question(desk)).to_have_text("Where is my parcel?")
    expect(desk.locator("#notes")).to_have_value("Keep me.")
    assert values() == []
    console.allow("401")
    context.clear_cookies(name=settings.SESSION_COOKIE_NAME)
    desk.keyboard.press("s")
    expect(desk.locator("#status")).to_contain_text("You are signed out")
    expect(desk.locator("#waiting")).to_have_text("1 to send")


@pytest.fixture
def pairs(agent: Agent) -> RatingQueue:
    version = make_version(agent, "v1")
    for number in range(3):
        left = make_trace(agent, f"pair {number}?", LONG, model_version=version)
        right = make_trace(agent, f"pair {number}?", "Short.")
        AnswerPair.objects.create(agent=agent, left=left, right=right, origin="second")
    return RatingQueue.objects.create(
        agent=agent,
        name="which",
        rubric="pair",
        raters_per_item=1,
        instructions="Which would you rather read?",
        gold_share=0,
        repeat_share=0,
    )


def test_a_pair_is_decided_by_arrows_and_then_says_whose_it_was(
    signed_in: Page, live_site: LiveSite, pairs: RatingQueue, screenshot: Shot
) -> None:
    page = signed_in
    open_queue(page, live_site, pairs)
    expect(page.get_by_text("Which would you rather read?")).to_be_visible()
    heights = page.locator("#answers .answer").evaluate_all("boxes => boxes.map((box) => box.clientHeight)")
    assert abs(heights[0] - heights[1]) <= 1
    screenshot(page, "rating-pair")
    page.get_by_role("button", name="Show all").click()
    expect(page.get_by_role("button", name="Show less")).to_have_attribute("aria-expanded", "true")
    page.locator("#item").focus()
    left = page.locator("#answers .answer").first.inner_text()
    page.keyboard.press("ArrowLeft")
    expect(page.locator("#revealed")).to_contain_text("In the last pair A was ")
    event = Feedback.objects.get()
    preferred = event.trace if event.choice == "left" else event.other_trace
    assert (preferred.response == LONG) == ("Look at the card" in left)
    page.keyboard.press("e")
    page.keyboard.press("x")
    expect(page.get_by_role("heading", name="All rated")).to_be_visible()
    assert list(Feedback.objects.order_by("id").values_list("choice", flat=True))[1:] == ["tie", "both_bad"]


def test_two_people_at_once_get_no_pair_twice(
    signed_in: Page, browser, live_site: LiveSite, pairs: RatingQueue, bob: User, console: Console
) -> None:
    context = browser.new_context(reduced_motion="reduce")
    console.watch(context)
    sign_in(context, live_site, bob)
    theirs = context.new_page()
    Claim.objects.all().delete()
    agent = pairs.agent
    for number in range(3, 6):
        left, right = (make_trace(agent, f"pair {number}?", text) for text in ("One.", "Two."))
        AnswerPair.objects.create(agent=agent, left=left, right=right, origin="second")
    for page in (signed_in, theirs):
        open_queue(page, live_site, pairs)
    for key in ("a", "b", "a", "b"):  # who asks first has the fourth
        for page in (signed_in, theirs):
            page.keyboard.press(key, delay=HELD)
    for page in (signed_in, theirs):
        expect(page.get_by_role("heading", name="All rated")).to_be_visible()
    context.close()
    events = Feedback.objects.filter(kind=Feedback.Kind.COMPARISON)
    assert events.count() == events.values("trace", "other_trace").distinct().count() == 6
    assert events.values("rater").distinct().count() == 2


def test_scores_are_chosen_cleared_and_sent(
    signed_in: Page, live_site: LiveSite, answers: list[Trace], agent: Agent, screenshot: Shot
) -> None:
    page = signed_in
    queue = RatingQueue.objects.create(agent=agent, name="stars", rubric="stars", gold_share=0, repeat_share=0)
    open_queue(page, live_site, queue)
    page.keyboard.press("3")
    page.keyboard.press("0")
    page.keyboard.press("Enter")
    expect(page.locator("#status")).to_have_text("Choose from 1 to 5 first.")
    page.keyboard.press("4")
    page.keyboard.press("n")
    page.keyboard.type("Nearly.")
    screenshot(page, "rating-stars")
    page.keyboard.press("Control+Enter")
    expect(done(page)).to_have_text("1 of 3")
    page.keyboard.press("1", delay=HELD)
    page.keyboard.press("1")
    expect(done(page)).to_have_text("2 of 3")
    assert values() == [0.75, 0.0]
    score = RatingQueue.objects.create(agent=agent, name="score", rubric="score", gold_share=0, repeat_share=0)
    open_queue(page, live_site, score)
    page.get_by_label("9").check()
    page.get_by_role("button", name="Send").click()
    expect(page.get_by_role("heading", name="All rated")).to_be_visible()
    assert values() == [0.75, 0.0, 1.0]


def test_an_answer_is_edited(signed_in: Page, live_site: LiveSite, answers: list[Trace], agent: Agent) -> None:
    queue = RatingQueue.objects.create(agent=agent, name="better", rubric="edit", gold_share=0, repeat_share=0)
    open_queue(signed_in, live_site, queue)
    signed_in.keyboard.press("Enter")
    expect(signed_in.locator("#status")).to_contain_text("Nothing is changed yet.")
    signed_in.keyboard.press("e")
    signed_in.keyboard.press("Control+a")
    signed_in.keyboard.type("It is at the door.")
    signed_in.keyboard.press("Meta+Enter")
    expect(done(signed_in)).to_have_text("1 of 3")
    event = Feedback.objects.get()
    assert (event.kind, event.text) == ("correction", "It is at the door.")


def test_a_hostile_answer_stays_text_and_loads_nothing(signed_in: Page, live_site: LiveSite, agent: Agent) -> None:
    hostile = "<img src=x onerror=alert(1)><script>alert(1)</script>\n\n![x](https://evil.example/x.png)"
    for number in range(2):
        make_trace(agent, f"question {number}", hostile)
    signed_in.goto(f"{live_site.url}/rate/support-chat/")
    signed_in.keyboard.press("u")
    expect(signed_in.locator("#answers")).to_contain_text("<img src=x onerror=alert(1)><script>alert(1)</script>")
    assert signed_in.locator("#answers img, #answers script, #question img").count() == 0


def test_it_fits_a_phone_and_the_buttons_a_finger(
    signed_in: Page, live_site: LiveSite, answers: list[Trace], pairs: RatingQueue, screenshot: Shot
) -> None:
    page = signed_in
    page.set_viewport_size({"width": 375, "height": 700})
    for address, names, picture in (
        ("", ("Good", "Bad", "Skip"), "rating-page-phone"),
        ("which/", ("A is better", "B is better", "Tie", "Both bad", "Skip"), "rating-pair-phone"),
    ):
        page.goto(f"{live_site.url}/rate/support-chat/{address}")
        page.wait_for_load_state("networkidle")
        assert page.evaluate("document.documentElement.scrollWidth") <= 375
        for name in names:
            box = page.get_by_role("button", name=name).bounding_box()
            assert box is not None
            assert box["height"] >= 44
            assert box["y"] + box["height"] <= 700
        screenshot(page, picture)


def test_without_javascript_it_is_a_form(browser, live_site: LiveSite, answers: list[Trace], alice: User) -> None:
    context = browser.new_context(java_script_enabled=False)
    sign_in(context, live_site, alice)
    page = context.new_page()
    page.goto(f"{live_site.url}/rate/support-chat/")
    page.get_by_role("button", name="Good").click()
    expect(question(page)).to_have_text("Can it go to my neighbour?")
    page.get_by_role("button", name="Skip").click()
    expect(question(page)).to_have_text("And if nobody is at home?")
    page.get_by_role("listitem").filter(has_text="Where is my parcel?").get_by_role("button", name="Undo").click()
    expect(page.locator("#progress-text")).to_have_text("0 of 3")
    context.close()
    assert values() == []


def test_a_filter_stays_while_one_rates(signed_in: Page, live_site: LiveSite, agent: Agent, screenshot: Shot) -> None:
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
    page = signed_in
    page.goto(f"{live_site.url}/rate/support-chat/")
    page.get_by_label("Category").select_option("energy")
    page.get_by_role("button", name="Show").click()
    expect(done(page)).to_have_text("0 of 3")
    expect(page.locator("#answers figure")).to_be_visible()
    screenshot(page, "rating-filters")
    for asked in ("energy 4?", "energy 2?", "energy 0?"):
        expect(question(page)).to_have_text(asked)
        page.keyboard.press("u", delay=HELD)
    expect(page.get_by_text("You have rated every answer with these marks.")).to_be_visible()
    page.get_by_role("link", name="Go on with all answers").click()
    expect(question(page)).to_have_text("alerts 3?")
    assert values() == [1.0, 1.0, 1.0]
