"""<ratchet-feedback> in a page of one origin, rating against an API of another, under the strictest policy there is."""

import json
import time
from collections.abc import Callable, Iterator
from datetime import datetime
from functools import partial
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from tests.browser.conftest import Console
from tests.browser.servers import Api, Site, serve
from tests.waiting import until

pytestmark = pytest.mark.process


TRACE, OTHER = "6f1c0f9e-3a52-4a43-9f0b-0c8f6f4f2b11", "0b5f2f5e-95c1-4e64-8f0a-9a7f6f1d7c22"
REFUSED = r"Failed to load resource"


@pytest.fixture
def api() -> Iterator[Api]:
    yield from serve(Api())


@pytest.fixture
def site(api: Api) -> Iterator[Site]:
    yield from serve(Site(api.origin))


Open = Callable[..., None]


@pytest.fixture
def open_widget(page: Page, site: Site) -> Open:
    """``open_widget('type="stars"')``: the page with one widget; its events are kept in ``window.seen``."""

    def open_it(attributes: str = "", inside: str = "") -> None:
        site.body = f'<ratchet-feedback public-key="pk_test" trace="{TRACE}" {attributes}>{inside}</ratchet-feedback>'
        page.goto(site.url)
        page.evaluate("""() => { window.seen = []; for (const name of ["feedback", "sent", "queued", "error"])
            document.addEventListener(`ratchet-${name}`, (event) => seen.push([name, event.detail])); }""")

    return open_it


def seen(page: Page) -> list[str]:
    return [name for name, _ in page.evaluate("window.seen")]


def has_seen(page: Page, name: str, times: int) -> bool:
    return seen(page).count(name) == times


def wait_until(page: Page, condition: Callable[[], bool]) -> None:
    """Lets the browser work meanwhile."""
    until(condition, sleep=lambda seconds: page.wait_for_timeout(1000 * seconds))


def press(page: Page, name: str, status: str) -> None:
    page.get_by_role("button", name=name, exact=True).click()
    expect(page.get_by_role("status")).to_have_text(status)


def queue_of(page: Page) -> list[dict[str, Any]]:
    return json.loads(page.evaluate("localStorage['ratchet-feedback-queue'] ?? '[]'"))


# --- Rating ------------------------------------------------------------------------------------------------------------


def test_a_thumb_is_sent_with_the_key_and_without_cookies(page: Page, api: Api, open_widget: Open) -> None:
    page.context.add_cookies([{"name": "session", "value": "secret", "url": api.origin}])
    open_widget()
    press(page, "Not helpful", "Thank you, saved.")
    path, body, headers = api.requests[0]
    assert path == "/api/v1/feedback/"
    assert headers["Authorization"] == "Bearer pk_test"
    assert "Cookie" not in headers
    assert len(body.pop("rater")) > 20
    assert abs(datetime.fromisoformat(body.pop("rated_at")).timestamp() - time.time()) < 60
    assert body == {"trace": TRACE, "scale": "thumb", "value": 0, "tags": [], "notes": ""}
    assert seen(page) == ["feedback", "sent"]
    expect(page.get_by_role("button", name="Not helpful")).to_have_attribute("aria-pressed", "true")
    assert queue_of(page) == []


@pytest.mark.parametrize("script", ["/ratchet/static/rl/ratchet-feedback.js", "/ratchet-feedback.js"])
@pytest.mark.parametrize("given", ["", "/", "/ratchet", "/ratchet/"])
def test_a_site_below_a_path_is_asked_there(page: Page, api: Api, site: Site, open_widget: Open, script, given) -> None:
    site.script = script
    open_widget(f'api="{api.origin}{given}"' if given else "")
    press(page, "Helpful", "Thank you, saved.")
    root = (
        given.rstrip("/")
        if given
        else script.removesuffix("ratchet-feedback.js").removesuffix("static/rl/").rstrip("/")
    )
    assert [path for path, *_ in api.requests] == [f"{root}/api/v1/feedback/"]


@pytest.mark.parametrize(
    ("kind", "label", "scale", "value"),
    [("stars", "4 of 5 stars", "stars", 4), ("score", "7 of 10", "score", 0.7), ("score", "0 of 10", "score", 0)],
)
def test_stars_and_scores_are_sent_on_their_own_scale(
    page: Page, api: Api, open_widget: Open, kind: str, label: str, scale: str, value: float
) -> None:
    open_widget(f'type="{kind}"')
    page.get_by_role("radio", name=label, exact=True).click()
    expect(page.get_by_role("radio", name=label, exact=True)).to_be_checked()
    wait_until(page, lambda: len(api.bodies) == 1)
    assert (api.bodies[0]["scale"], api.bodies[0]["value"]) == (scale, value)


def test_another_press_supersedes_and_the_same_press_retracts(page: Page, api: Api, open_widget: Open) -> None:
    open_widget('rater="customer-7"')
    for sent, name in enumerate(("Helpful", "Not helpful", "Not helpful"), start=1):
        page.get_by_role("button", name=name, exact=True).click()
        wait_until(page, partial(has_seen, page, "sent", sent))
    expect(page.get_by_role("status")).to_have_text("Rating removed.")
    assert [path.rsplit("feedback/")[1] for path, _, _ in api.requests] == ["", "", "retract/"]
    assert api.requests[2][1] == {"trace": TRACE, "rater": "customer-7"}
    assert api.ratings == {}
    expect(page.get_by_role("button", name="Not helpful")).to_have_attribute("aria-pressed", "false")


def test_a_browser_keeps_one_rater_for_all_its_ratings(page: Page, api: Api, open_widget: Open) -> None:
    for _ in range(2):
        open_widget()
        page.get_by_role("button", name="Helpful", exact=True).click()
        expect(page.get_by_role("status")).to_have_text("Thank you, saved.")
    assert len({body["rater"] for body in api.bodies}) == 1
    assert len(api.ratings) == 1


def test_a_quick_change_of_mind_arrives_last(page: Page, api: Api, open_widget: Open) -> None:
    api.answers.clear()
    open_widget('type="stars"')
    page.get_by_role("radio", name="1 of 5 stars").click()
    wait_until(page, lambda: len(api.bodies) == 1)
    for stars in (2, 5):
        page.get_by_role("radio", name=f"{stars} of 5 stars").click()
    api.answers.set()
    wait_until(page, lambda: api.bodies[-1]["value"] == 5)
    expect(page.get_by_role("status")).to_have_text("Thank you, saved.")
    assert [body["value"] for body in api.bodies] == [1, 5]
    expect(page.get_by_role("radio", name="5 of 5 stars")).to_be_checked()


@pytest.mark.parametrize(("kind", "name", "count"), [("thumbs", "Helpful", 2), ("stars", "4 of 5 stars", 3)])
def test_a_double_click_counts_once(page: Page, api: Api, open_widget: Open, kind: str, name: str, count: int) -> None:
    open_widget(f'type="{kind}"')
    page.get_by_label(name, exact=True).click(click_count=count)
    expect(page.get_by_role("status")).to_have_text("Thank you, saved.")
    page.wait_for_timeout(100)
    assert len(api.requests) == len(api.ratings) == 1


def test_a_double_click_on_a_tag_or_on_a_form_of_the_page_counts_once(page: Page, api: Api, open_widget: Open) -> None:
    open_widget('tags="Wrong"')
    page.get_by_role("button", name="Not helpful").click()
    page.get_by_text("Wrong").dblclick()
    expect(page.get_by_label("Wrong")).to_be_checked()
    open_widget('rater="me"', inside=FORM)
    page.get_by_role("button", name="Good").dblclick()
    wait_until(page, lambda: (TRACE, "me") in api.ratings)
    page.wait_for_timeout(100)
    assert api.ratings[TRACE, "me"]["value"] == 1
    assert [path for path, _, _ in api.requests if "retract" in path] == []


@pytest.mark.parametrize("key", ["1", "Enter"])
def test_a_key_that_chatters_or_is_held_down_counts_once(page: Page, api: Api, open_widget: Open, key: str) -> None:
    open_widget()
    page.evaluate(
        """(key) => {
            const echoes = [[1000, false], [1030, false], [1560, true], [1590, true]]; // milliseconds
            const button = document.querySelector("ratchet-feedback").shadowRoot.querySelector("button");
            button.focus();
            for (const [at, repeat] of echoes) {
                const options = { key, repeat, bubbles: true, cancelable: true, composed: true };
                const event = new KeyboardEvent("keydown", options);
                Object.defineProperty(event, "timeStamp", { value: at });
                if (button.dispatchEvent(event) && key === "Enter") button.click(); // as a browser does
            }
        }""",
        key,
    )
    expect(page.get_by_role("status")).to_have_text("Thank you, saved.")
    page.wait_for_timeout(100)
    assert [body["value"] for body in api.bodies] == [1]


# --- Details -----------------------------------------------------------------------------------------------------------


def test_tags_and_a_note_are_offered_after_a_low_rating(page: Page, api: Api, open_widget: Open) -> None:
    open_widget('tags="Wrong, Too long"')
    expect(page.get_by_role("textbox")).to_be_hidden()
    page.get_by_role("button", name="Not helpful").click()
    page.get_by_label("Too long").check()
    page.get_by_role("textbox").fill("Half of it is filler.")
    page.get_by_role("button", name="Send").click()
    wait_until(page, lambda: bool(api.bodies) and api.bodies[-1]["notes"] != "")
    told = {name: api.bodies[-1][name] for name in ("scale", "value", "tags", "notes")}
    assert told == {"scale": "thumb", "value": 0, "tags": ["Too long"], "notes": "Half of it is filler."}
    expect(page.get_by_role("textbox")).to_be_hidden()
    expect(page.get_by_role("button", name="Not helpful")).to_be_focused()


def test_the_reasons_of_a_low_rating_do_not_stick_to_a_high_one(page: Page, api: Api, open_widget: Open) -> None:
    open_widget('tags="Wrong,Too long" type="stars"')
    page.get_by_role("radio", name="1 of 5 stars").click()
    page.get_by_label("Wrong").check()
    page.get_by_role("radio", name="5 of 5 stars").click()
    expect(page.get_by_label("Wrong")).to_be_hidden()
    wait_until(page, lambda: bool(api.bodies) and api.bodies[-1]["value"] == 5)
    assert api.bodies[-1]["tags"] == []


# --- Keyboard ----------------------------------------------------------------------------------------------------------


def test_arrow_keys_move_within_one_tab_stop_and_rate_nothing(page: Page, api: Api, open_widget: Open) -> None:
    open_widget('type="stars"')
    page.keyboard.press("Tab")
    expect(page.get_by_role("radio", name="1 of 5 stars")).to_be_focused()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    expect(page.get_by_role("radio", name="3 of 5 stars")).to_be_focused()
    page.keyboard.press("ArrowLeft")
    assert api.bodies == []
    page.keyboard.press("Enter")
    wait_until(page, lambda: [body["value"] for body in api.bodies] == [2])


@pytest.mark.parametrize(
    ("kind", "key", "value"),
    [
        ("thumbs", "u", 1),
        ("thumbs", "d", 0),
        ("thumbs", "2", 0),
        ("stars", "4", 4),
        ("score", "0", 0),
        ("score", "9", 0.9),
    ],
)
def test_digits_and_letters_rate(page: Page, api: Api, open_widget: Open, kind: str, key: str, value: float) -> None:
    open_widget(f'type="{kind}"')
    page.keyboard.press("Tab")
    page.keyboard.press(key)
    wait_until(page, lambda: [body["value"] for body in api.bodies] == [value])
    page.keyboard.press("z")
    expect(page.get_by_role("status")).to_have_text("Rating removed.")


def test_keys_are_text_while_a_note_is_typed(page: Page, api: Api, open_widget: Open) -> None:
    open_widget()
    page.get_by_role("button", name="Helpful", exact=True).click()
    page.get_by_role("textbox").press_sequentially("dud 1z")
    page.keyboard.press("Control+Enter")
    wait_until(page, lambda: bool(api.bodies) and api.bodies[-1]["notes"] == "dud 1z")
    assert {body["value"] for body in api.bodies} == {1}


# --- When the server cannot be reached ---------------------------------------------------------------------------------


def test_offline_ratings_wait_and_only_the_last_is_delivered_once(
    page: Page, context: BrowserContext, console: Console, api: Api, open_widget: Open
) -> None:
    console.allow(REFUSED)
    open_widget()
    context.set_offline(True)
    press(page, "Helpful", "Kept on this device until it can be sent.")
    page.get_by_role("button", name="Not helpful").click()
    wait_until(page, lambda: seen(page).count("queued") >= 2)
    assert [message["body"]["value"] for message in queue_of(page)] == [0]
    context.set_offline(False)
    expect(page.get_by_role("status")).to_have_text("Thank you, saved.")
    page.wait_for_timeout(500)
    assert [body["value"] for body in api.bodies] == [0]
    assert queue_of(page) == []


def test_a_rating_that_waits_is_delivered_by_the_next_page(
    page: Page, context: BrowserContext, console: Console, api: Api, site: Site, open_widget: Open
) -> None:
    console.allow(REFUSED)
    api.answer_with = 503
    open_widget()
    press(page, "Helpful", "Kept on this device until it can be sent.")
    page.close()
    api.answer_with = 0
    site.body = f'<ratchet-feedback public-key="pk_test" trace="{OTHER}"></ratchet-feedback>'
    later = context.new_page()
    later.goto(site.url)
    wait_until(later, lambda: [trace for trace, _ in api.ratings] == [TRACE])
    expect(later.get_by_role("status")).to_be_empty()


@pytest.mark.parametrize("status", [500, 429])
def test_a_server_error_is_tried_again(page: Page, console: Console, api: Api, open_widget: Open, status: int) -> None:
    console.allow(REFUSED)
    api.answer_with = status
    open_widget()
    page.get_by_role("button", name="Helpful", exact=True).click()
    wait_until(page, lambda: "queued" in seen(page))
    api.answer_with = 0
    expect(page.get_by_role("status")).to_have_text("Thank you, saved.")
    assert len(api.ratings) == 1
    assert seen(page)[-1] == "sent"


def test_a_refusal_is_told_and_not_tried_again(page: Page, console: Console, api: Api, open_widget: Open) -> None:
    console.allow(REFUSED)
    open_widget()
    press(page, "Helpful", "Thank you, saved.")
    api.answer_with = 403
    press(page, "Not helpful", "This page may not rate.")
    expect(page.get_by_role("button", name="Helpful", exact=True)).to_have_attribute("aria-pressed", "true")
    assert queue_of(page) == []
    api.answer_with = 0
    page.evaluate("document.querySelector('ratchet-feedback').flush()")
    assert len(api.bodies) == 2
    assert seen(page)[-1] == "error"


def test_a_frame_without_storage_can_rate(page: Page, api: Api, site: Site, open_widget: Open) -> None:
    site.policy = "sandbox allow-scripts allow-forms"
    open_widget()
    assert (
        page.evaluate("() => { try { return localStorage.length } catch (error) { return error.name } }")
        == "SecurityError"
    )
    press(page, "Helpful", "Thank you, saved.")
    page.get_by_role("button", name="Not helpful").click()
    wait_until(page, lambda: [body["value"] for body in api.bodies] == [1, 0])
    assert len(api.ratings) == 1


def test_a_host_that_is_gone_does_not_hold_up_the_others(
    page: Page, console: Console, api: Api, site: Site, open_widget: Open
) -> None:
    console.allow(REFUSED)
    console.allow("Content Security Policy")
    open_widget('api="http://127.0.0.1:9"')
    page.evaluate("document.querySelector('ratchet-feedback').rate(1)")
    open_widget()
    press(page, "Not helpful", "Thank you, saved.")
    assert [message["api"] for message in queue_of(page)] == ["http://127.0.0.1:9"]


WAITS = {"id": "1", "subject": "s", "api": "API", "key": "pk_test", "body": {"trace": TRACE, "rater": "r", "value": 1}}


@pytest.mark.parametrize(
    "stored",
    [
        "{not json",
        "5",
        '"words"',
        "{}",
        "null",
        "",
        json.dumps([None, 1, "x", {}, {"id": 3}, {"id": "9", "body": 1}, WAITS]),
    ],
)
def test_broken_storage_heals(page: Page, api: Api, open_widget: Open, stored: str) -> None:
    open_widget()
    stored = stored.replace('"API"', json.dumps(api.origin)).replace(
        '"value": 1', '"value": 1, "rated_at": "2026-01-01"'
    )
    page.evaluate(
        """(stored) => {
            localStorage["ratchet-feedback-queue"] = stored;
            localStorage["ratchet-feedback-rater"] = "x".repeat(5000) + "\\n";
        }""",
        stored,
    )
    open_widget()
    press(page, "Helpful", "Thank you, saved.")
    assert queue_of(page) == []
    assert len(api.bodies) == (2 if "pk_test" in stored else 1)
    assert len(api.bodies[-1]["rater"]) < 50


def test_storage_that_was_full_for_a_while_sends_nothing_twice(
    page: Page, console: Console, api: Api, open_widget: Open
) -> None:
    console.allow(REFUSED)
    api.answer_with = 503
    open_widget()
    page.evaluate("""() => {
        for (let n = 1 << 22; n >= 1; n >>= 1) try { localStorage[`fill-${n}`] = "x".repeat(n); } catch { /* the half */ }
    }""")
    page.get_by_role("button", name="Helpful", exact=True).click()
    wait_until(page, lambda: "queued" in seen(page))
    assert queue_of(page) == []
    page.evaluate(
        "Object.keys(localStorage).filter((name) => /^fill/.test(name)).map((name) => delete localStorage[name])"
    )
    api.answer_with = 0
    page.evaluate("document.querySelector('ratchet-feedback').flush()")
    wait_until(page, lambda: len(api.ratings) == 1)
    sent = len(api.requests)
    page.evaluate("document.querySelector('ratchet-feedback').flush()")
    page.wait_for_timeout(100)
    assert len(api.requests) == sent


def test_a_key_that_no_header_holds_is_refused_and_blocks_nobody(
    page: Page, console: Console, api: Api, site: Site, open_widget: Open
) -> None:
    open_widget()
    page.evaluate("document.querySelector('ratchet-feedback').publicKey = 'pk_…'")  # as copied from documentation
    page.get_by_role("button", name="Helpful", exact=True).click()
    wait_until(page, lambda: "error" in seen(page))
    assert (api.requests, queue_of(page)) == ([], [])
    page.evaluate("document.querySelector('ratchet-feedback').publicKey = 'pk_test'")
    page.get_by_role("button", name="Helpful", exact=True).click()
    wait_until(page, lambda: len(api.ratings) == 1)


def test_at_most_200_ratings_wait(page: Page, console: Console, api: Api, open_widget: Open) -> None:
    console.allow(REFUSED)
    api.answer_with = 429
    open_widget()
    page.evaluate("""async () => {
        const widget = document.querySelector("ratchet-feedback");
        for (let n = 0; n < 203; n++) { widget.trace_ = widget.setAttribute("trace", `t${n}`); widget.rate(1); }
        await widget.flush();
    }""")
    traces = [message["body"]["trace"] for message in queue_of(page)]
    assert traces == [f"t{n}" for n in range(3, 203)]
    assert seen(page).count("error") == 3


# --- The page's author -------------------------------------------------------------------------------------------------

FORM = """<form action="/rate" method="post"><button name="value" value="1">Good</button>
  <button name="value" value="0">Bad</button><label><input type="checkbox" name="tags" value="Rude"> Rude</label>
  <textarea name="notes" aria-label="Why?"></textarea></form>"""


def test_a_form_inside_is_sent_in_place(page: Page, api: Api, site: Site, open_widget: Open) -> None:
    open_widget(inside=FORM)
    page.get_by_label("Rude").check()
    page.get_by_label("Why?").fill("No greeting.")
    press(page, "Bad", "Thank you, saved.")
    told = {name: api.bodies[0][name] for name in ("scale", "value", "tags", "notes")}
    assert told == {"scale": "thumb", "value": 0, "tags": ["Rude"], "notes": "No greeting."}
    expect(page.get_by_role("button", name="Bad")).to_have_attribute("aria-pressed", "true")
    press(page, "Bad", "Rating removed.")
    expect(page.get_by_label("Rude")).not_to_be_checked()
    assert (page.title(), site.posted) == ("Shop", b"")


def test_without_a_key_the_form_inside_posts_as_ever(page: Page, api: Api, site: Site) -> None:
    site.body = f"<ratchet-feedback>{FORM}</ratchet-feedback>"
    page.goto(site.url)
    page.get_by_role("button", name="Good").click()
    page.wait_for_url("**/rate")
    assert site.posted == b"value=1&notes="
    assert api.bodies == []


def test_the_page_can_cancel_a_rating(page: Page, api: Api, open_widget: Open) -> None:
    open_widget()
    page.evaluate("addEventListener('ratchet-feedback', (event) => event.preventDefault())")
    page.get_by_role("button", name="Helpful", exact=True).click()
    page.wait_for_timeout(200)
    assert api.bodies == []
    expect(page.get_by_role("button", name="Helpful", exact=True)).to_have_attribute("aria-pressed", "false")


def test_the_page_can_rate_reset_and_learns_of_a_wrong_value(page: Page, api: Api, open_widget: Open) -> None:
    open_widget('type="stars"')
    page.evaluate("document.querySelector('ratchet-feedback').rate(3, { tags: ['Slow'], notes: 'by hand' })")
    assert (api.bodies[0]["value"], api.bodies[0]["tags"], api.bodies[0]["notes"]) == (3, ["Slow"], "by hand")
    page.evaluate("document.querySelector('ratchet-feedback').reset()")
    expect(page.get_by_role("radio", checked=True)).to_have_count(0)
    message = page.evaluate("""() => { try { document.querySelector("ratchet-feedback").rate(6); }
        catch (error) { return `${error.name}: ${error.message}`; } }""")
    assert message == "RangeError: 6 is not a rating of type stars"
    assert len(api.bodies) == 1


def test_a_key_and_a_trace_may_come_after_the_element(page: Page, api: Api, site: Site) -> None:
    site.body = "<ratchet-feedback></ratchet-feedback>"
    page.goto(site.url)
    page.evaluate(
        """(trace) => { const widget = document.querySelector("ratchet-feedback");
        widget.setAttribute("key", "pk_test"); widget.setAttribute("trace", trace); }""",
        TRACE,
    )
    press(page, "Helpful", "Thank you, saved.")
    page.get_by_role("button", name="Send").click()
    assert len(api.bodies) == 1


PROPERTIES = {
    "publicKey": "public-key",
    "trace": "trace",
    "otherTrace": "other-trace",
    "token": "token",
    "otherToken": "other-token",
    "type": "type",
    "answer": "answer",
    "otherAnswer": "other-answer",
    "values": "values",
    "tags": "tags",
    "rater": "rater",
    "api": "api",
}


def test_every_attribute_is_a_property_that_takes_any_value(page: Page, open_widget: Open) -> None:
    open_widget()
    values = page.evaluate(
        """(names) => Object.entries(names).map(([property, attribute]) => {
            const widget = document.querySelector("ratchet-feedback").cloneNode();
            const after = (value) => { widget[property] = value; return widget.getAttribute(attribute); };
            const texts = ["stars", 7, 0, ["a", "b"], new URL("https://a.example/")].map(after);
            const none = [null, undefined, false, true, "", NaN, () => 1, Symbol("x"), Object.create(null), [Symbol("x")]];
            return [texts, none.flatMap((value) => (widget[property] = "x", [after(value)]))];
        })""",
        PROPERTIES,
    )
    nothing = [None, None, None, None, None, "NaN", None, None, None, None]
    assert values == [[["stars", "7", "0", "a,b", "https://a.example/"], nothing]] * len(PROPERTIES)


def test_no_name_of_the_element_throws_when_it_is_set(page: Page, open_widget: Open) -> None:
    open_widget()
    names = page.evaluate("""() => {
        "use strict";
        const widget = document.querySelector("ratchet-feedback"), { prototype } = customElements.get("ratchet-feedback");
        const all = Object.entries(Object.getOwnPropertyDescriptors(prototype));
        const names = all.filter(([, { get }]) => get).map(([name]) => name);
        for (const name of names) for (const value of [null, undefined, "", 1, true, [], {}]) widget[name] = value;
        return names;
    }""")
    assert set(names) == {*PROPERTIES, "value"}


@pytest.mark.parametrize("name", ["public-key", "publicKey", "key", "a property"])
def test_what_was_set_before_the_module_was_there_counts(page: Page, api: Api, site: Site, name: str) -> None:
    """As a framework does that draws first; one that knows no property writes ``publicKey`` as an attribute."""
    site.script = "/diff.js"  # another one
    page.goto(site.url)
    page.evaluate(
        """([name, api, trace]) => {
            const widget = document.createElement("ratchet-feedback"), rest = { trace, type: "stars", tags: ["a", "b"] };
            if (name === "a property") Object.assign(widget, { publicKey: "pk_test", ...rest });
            else for (const [key, value] of Object.entries({ [name]: "pk_test", ...rest })) widget.setAttribute(key, value);
            document.body.append(widget);
            return import(`${api}/ratchet-feedback.js`);
        }""",
        [name, api.origin, TRACE],
    )
    page.get_by_role("radio", name="2 of 5 stars").click()
    expect(page.get_by_role("checkbox")).to_have_count(2)
    expect(page.get_by_role("status")).to_have_text("Thank you, saved.")
    assert api.requests[0][2]["Authorization"] == "Bearer pk_test"


MOVES = {
    "appended": "parent.append(widget)",
    "away for a while": "widget.remove(); await new Promise((done) => setTimeout(done, 50)); parent.append(widget)",
    "moved whole": "parent.moveBefore(widget, null)",
}


@pytest.mark.parametrize("move", MOVES.values(), ids=MOVES)
def test_nothing_is_lost_or_sent_again_when_it_is_moved(page: Page, api: Api, open_widget: Open, move: str) -> None:
    api.answers.clear()
    open_widget('tags="Wrong"')
    page.get_by_role("button", name="Not helpful").click()
    page.get_by_role("textbox").fill("Half of it is filler.")
    page.evaluate(f"""async () => {{
        const widget = document.querySelector("ratchet-feedback"), parent = document.createElement("main");
        document.body.append(parent);
        {move};
    }}""")
    api.answers.set()
    expect(page.get_by_role("status")).to_have_text("Thank you, saved.")
    expect(page.get_by_role("textbox")).to_have_value("Half of it is filler.")
    expect(page.get_by_role("button", name="Not helpful")).to_have_attribute("aria-pressed", "true")
    assert len(api.requests) == 1


def test_one_that_was_out_of_the_page_knows_that_its_rating_was_refused(
    page: Page, console: Console, api: Api, open_widget: Open
) -> None:
    console.allow(REFUSED)
    api.answers.clear()
    api.answer_with = 403
    open_widget()
    page.get_by_role("button", name="Helpful", exact=True).click()
    page.evaluate("(window.widget = document.querySelector('ratchet-feedback')).remove()")
    api.answers.set()
    wait_until(page, lambda: "error" in seen(page))
    page.evaluate("document.body.append(widget)")
    expect(page.get_by_role("status")).to_have_text("This page may not rate.")
    expect(page.get_by_role("button", name="Helpful", exact=True)).to_have_attribute("aria-pressed", "false")


@pytest.mark.parametrize("kind", ["pair", "edit"])
def test_a_choice_and_a_correction_stay_when_they_are_moved(page: Page, api: Api, open_widget: Open, kind: str) -> None:
    open_widget(f'type="{kind}" other-trace="{OTHER}" answer="One" other-answer="Two"')
    if kind == "pair":
        page.get_by_role("button", name="Equally good").click()
        expect(page.get_by_role("status")).to_have_text("Thank you, saved.")
    else:
        page.get_by_role("textbox").fill("One and a half")
    page.evaluate("document.body.prepend(document.querySelector('ratchet-feedback'))")
    if kind == "pair":
        expect(page.get_by_role("button", name="Equally good")).to_have_attribute("aria-pressed", "true")
    else:
        expect(page.get_by_role("textbox")).to_have_value("One and a half")
    assert len(api.requests) == (kind == "pair")


def test_an_address_that_is_none_is_an_error_that_says_so(page: Page, api: Api, open_widget: Open) -> None:
    for address in ("http://", "file:///tmp", "ratchet"):
        open_widget(f'api="{address}"')
        page.get_by_role("button", name="Helpful", exact=True).click()
        expect(page.get_by_role("status")).to_have_text("Your rating could not be saved.")
    assert api.bodies == []


def test_a_missing_trace_is_an_error_that_says_so(page: Page, api: Api, site: Site) -> None:
    site.body = '<ratchet-feedback public-key="pk_test"></ratchet-feedback>'
    page.goto(site.url)
    press(page, "Helpful", "Your rating could not be saved.")
    assert api.bodies == []


def test_texts_follow_the_language_and_give_way_to_attributes(page: Page, open_widget: Open) -> None:
    open_widget('lang="de-AT" label-up="Passt"')
    expect(page.get_by_role("button", name="Passt")).to_be_visible()
    expect(page.get_by_role("button", name="Nicht hilfreich")).to_be_visible()


def test_where_no_element_names_a_language_it_is_the_browsers(browser: Browser, api: Api, site: Site) -> None:
    context = browser.new_context(locale="es-MX")
    page = context.new_page()
    page.goto(site.url)
    for language, word in (("", "Útil"), ("de", "Hilfreich"), ("fr", "Helpful")):
        html = f'<ratchet-feedback public-key="pk_test" trace="{TRACE}"></ratchet-feedback>'
        page.evaluate(
            "([language, html]) => { document.documentElement.lang = language; document.body.innerHTML = html; }",
            [language, html],
        )
        expect(page.get_by_role("button", name=word, exact=True)).to_be_visible()
    context.close()


def test_the_language_comes_from_outside_of_shadow_roots_and_may_change(page: Page, api: Api, site: Site) -> None:
    page.goto(site.url)
    page.evaluate(
        """(trace) => {
            const inShadow = () => {
                const host = document.createElement("div");
                return [host, host.attachShadow({ mode: "open" })];
            };
            const [outer, outerRoot] = inShadow(), [inner, innerRoot] = inShadow();
            innerRoot.innerHTML = `<ratchet-feedback public-key="pk_test" trace="${trace}" tags="Wrong"></ratchet-feedback>`;
            outerRoot.append(inner);
            outer.lang = "de";
            document.body.append(outer);
            Object.assign(window, { outer, inner, widget: innerRoot.firstChild });
        }""",
        TRACE,
    )
    press(page, "Nicht hilfreich", "Danke, gespeichert.")
    page.get_by_role("textbox").fill("Half of it")
    page.evaluate("inner.lang = 'en-GB'")
    expect(page.get_by_role("button", name="Not helpful")).to_have_attribute("aria-pressed", "true")
    expect(page.get_by_role("status")).to_have_text("Thank you, saved.")
    expect(page.get_by_role("textbox")).to_have_value("Half of it")
    page.evaluate("inner.lang = ''; document.documentElement.lang = 'en'")
    expect(page.get_by_role("button", name="Nicht hilfreich")).to_be_visible()
    page.evaluate("outer.removeAttribute('lang'); widget.setAttribute('label-down', 'Nope')")
    expect(page.get_by_role("button", name="Nope")).to_be_visible()
    expect(page.get_by_role("textbox")).to_have_attribute("placeholder", "Add a note (optional)")
    page.evaluate("document.documentElement.lang = 'constructor'; widget.tags = ['Slow', 'Rude']")
    expect(page.get_by_role("checkbox")).to_have_count(2)
    expect(page.get_by_role("textbox")).to_have_value("Half of it")
    assert len(api.requests) == 1


def test_markup_in_tags_and_errors_stays_text(page: Page, api: Api, open_widget: Open) -> None:
    open_widget('tags="<img src=x onerror=alert(1)>" label-sent="<b>ok</b>"')
    page.get_by_role("button", name="Not helpful").click()
    expect(page.get_by_text("<img src=x onerror=alert(1)>")).to_be_visible()
    expect(page.get_by_role("status")).to_have_text("<b>ok</b>")


# --- pairs and corrections ---------------------------------------------------------------------------------------------

ANSWERS = '<p slot="answer">First</p><p slot="other-answer">Second</p>'


def test_a_pair_is_sent_as_it_was_shown(page: Page, api: Api, open_widget: Open) -> None:
    for sign, choice in (("ArrowLeft", "left"), ("b", "right"), ("ArrowDown", "tie"), ("x", "both_bad")):
        open_widget(f'type="pair" other-trace="{OTHER}" token="t1" other-token="t2"', ANSWERS)
        left = page.get_by_role("region", name="Left answer").locator("slot").get_attribute("name")
        page.get_by_role("button", name="Left is better").focus()
        page.keyboard.press(sign)
        expect(page.get_by_role("status")).to_have_text("Thank you, saved.")
        body = api.bodies[-1]
        sides = (TRACE, OTHER, "t1", "t2") if left == "answer" else (OTHER, TRACE, "t2", "t1")
        assert (body["trace"], body["other_trace"], body["token"], body["other_token"]) == sides
        assert (body["kind"], body["choice"]) == ("comparison", choice)


def test_the_sides_of_a_pair_are_drawn(page: Page, open_widget: Open) -> None:
    open_widget(f'type="pair" other-trace="{OTHER}"', ANSWERS)
    lefts = page.evaluate("""async () => {
        const widget = document.querySelector("ratchet-feedback"), lefts = [];
        const left = async () => { // once it is drawn: a change takes the slots away at once
            let slot;
            while (!(slot = widget.shadowRoot.querySelector("slot"))) await new Promise((done) => setTimeout(done, 5));
            return slot.name;
        };
        for (let n = 0; n < 20; n++) {
            widget.setAttribute("other-trace", `t${n}`);
            const before = await left();
            widget.setAttribute("lang", n % 2 ? "de" : "en"); // the same pair keeps its sides
            lefts.push(before === await left() ? before : "moved");
        }
        return lefts;
    }""")
    assert set(lefts) == {"answer", "other-answer"}


def test_a_choice_of_a_pair_can_be_changed_and_is_queued_once(
    page: Page, context: BrowserContext, console: Console, api: Api, open_widget: Open
) -> None:
    console.allow(REFUSED)
    open_widget(f'type="pair" other-trace="{OTHER}" answer="One" other-answer="Two" lang="de"')
    expect(page.get_by_text("One", exact=True)).to_be_visible()
    context.set_offline(True)
    page.get_by_role("button", name="Links ist besser").click()
    page.get_by_role("button", name="Gleich gut").click()
    expect(page.get_by_role("button", name="Gleich gut")).to_have_attribute("aria-pressed", "true")
    assert [message["body"]["choice"] for message in queue_of(page)] == ["tie"]
    context.set_offline(False)
    expect(page.get_by_role("status")).to_have_text("Danke, gespeichert.")


def test_a_correction_is_sent_once_the_text_is_changed(page: Page, api: Api, open_widget: Open) -> None:
    open_widget('type="edit"', '<p slot="answer">It is 4711.</p>')
    box = page.get_by_role("textbox", name="Correct this answer")
    expect(box).to_have_value("It is 4711.")
    press(page, "Send correction", "Change the text first.")
    box.fill("It is 4712.")
    box.press("Control+Enter")
    expect(page.get_by_role("status")).to_have_text("Thank you, saved.")
    assert (api.bodies[0]["kind"], api.bodies[0]["text"], api.bodies[0]["trace"]) == (
        "correction",
        "It is 4712.",
        TRACE,
    )


def test_a_choice_of_the_widget_is_a_correction_or_a_thumb(page: Page, api: Api, open_widget: Open) -> None:
    open_widget('type="choice" values="billing, shipping,legal" answer="Billing."')
    group = page.get_by_role("group", name="What is right?")
    expect(group.get_by_role("button")).to_have_text(["✓Right", "1billing", "2shipping", "3legal"])
    group.get_by_role("button", name="shipping").click()
    expect(page.get_by_role("status")).to_have_text("Thank you, saved.")
    expect(group.get_by_role("button", name="shipping")).to_have_attribute("aria-pressed", "true")
    page.keyboard.press("1")
    wait_until(page, lambda: len(api.bodies) == 2)
    first, second = api.bodies
    assert (first["kind"], first["text"], first["trace"]) == ("correction", "shipping", TRACE)
    assert (second["scale"], second["value"], "kind" in second) == ("thumb", 1, False)
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("Shift+Tab")
    expect(group.get_by_role("button", name="Right")).to_be_focused()
    page.keyboard.press("Enter")
    wait_until(page, lambda: len(api.bodies) == 3)
    assert api.bodies[2]["value"] == 1


def test_the_widget_asks_the_site_for_the_values_and_shows_them_as_text(
    page: Page,
    api: Api,
    open_widget: Open,
) -> None:
    api.choices = ["a, b", "<img src=x onerror=alert(1)>"]
    open_widget('type="choice" token="t"')
    expect(page.get_by_role("button")).to_have_text(["1a, b", "2<img src=x onerror=alert(1)>"])
    page.get_by_role("button", name="a, b").click()
    wait_until(page, lambda: len(api.bodies) == 1)
    assert (api.bodies[0]["text"], api.bodies[0]["token"]) == ("a, b", "t")


def test_an_unknown_type_says_so_once_and_shows_nothing(page: Page, api: Api, site: Site) -> None:
    heard: list[str] = []
    page.on("console", lambda message: heard.append(message.text) if message.type == "warning" else None)
    site.body = '<ratchet-feedback public-key="pk_test" trace="t" type="smiley"></ratchet-feedback>' * 2
    page.goto(site.url)
    wait_until(page, lambda: bool(heard))
    page.wait_for_timeout(100)
    assert len(heard) == 1
    assert 'no type "smiley": thumbs, stars, score, pair, edit' in heard[0]
    expect(page.get_by_role("button")).to_have_count(0)


def test_a_page_that_may_not_rate_says_so(page: Page, console: Console, api: Api, open_widget: Open) -> None:
    console.allow(REFUSED)
    console.allow("CORS policy")
    api.may_rate = False
    open_widget('lang="de"')
    press(page, "Hilfreich", "Diese Seite darf nicht bewerten.")
    expect(page.get_by_role("button", name="Hilfreich", exact=True)).to_have_attribute("aria-pressed", "false")
    assert queue_of(page) == []


def test_an_answer_that_is_gone_is_told_without_its_id(
    page: Page, console: Console, api: Api, open_widget: Open
) -> None:
    console.allow(REFUSED)
    api.answer_with = 404
    open_widget('token="t1"')
    press(page, "Helpful", "This answer can no longer be rated.")
    assert api.bodies[0]["token"] == "t1"
