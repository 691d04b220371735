"""Talking to an agent as a person does, on the real gateway: an answer that streams, thumbs, stopping, going on."""

import json
from pathlib import Path

import pytest
from django.contrib.auth.models import User
from playwright.sync_api import BrowserContext, Page, expect

from rl.models import Agent, Deployment, Feedback, Trace
from tests.browser.conftest import Console, LiveSite, sign_in
from tests.serving.gateway.upstream_double import UpstreamDouble
from tests.waiting import until
from tests.web.front.in_thread import serve_by
from tests.web.test_before_after import measured

pytestmark = pytest.mark.process


WORDS = "support-chat-v2 says hello"
ANSWERS = Path(__file__).parent / "before_and_after.json"


@pytest.fixture
def talk(
    page: Page, context: BrowserContext, agent: Agent, upstream: UpstreamDouble, bob: User, site: LiveSite
) -> Page:
    serve_by(upstream, agent)
    sign_in(context, site, bob)
    page.add_init_script("localStorage.setItem('ratchet-try-answers', 'one')")
    page.goto(f"{site.url}/try/")
    expect(page.get_by_role("heading", name="support-chat")).to_be_visible()
    return page


def ask(page: Page, question: str) -> None:
    page.get_by_label("Your question").fill(question)
    page.keyboard.press("Enter")


def last(page: Page, part: str):
    return page.locator(f".turn:last-child .{part}")


def test_an_answer_streams_in_and_a_thumb_under_it_is_stored(talk: Page, agent: Agent) -> None:
    expect(talk.get_by_label("Your question")).to_be_focused()
    talk.evaluate(
        """() => {
            window.lengths = [];
            const note = () => window.lengths.push(document.querySelector(".turn .answer")?.textContent.length ?? 0);
            new MutationObserver(note).observe(document.querySelector("#turns"), { childList: true, subtree: true });
        }"""
    )
    talk.keyboard.type("talk slowly")
    talk.keyboard.press("Enter")
    expect(talk.locator("#status")).to_have_text("Answering…")
    expect(talk.get_by_role("log")).to_have_attribute("aria-busy", "true")
    expect(last(talk, "answer")).to_contain_text(WORDS)
    expect(talk.get_by_role("log")).to_have_attribute("aria-busy", "false")
    assert len(set(talk.evaluate("window.lengths"))) >= 4
    expect(last(talk, "version")).to_have_text("v2")
    talk.get_by_role("button", name="Good answer").dblclick(delay=200)
    expect(last(talk, "saved")).to_have_text("Thank you, saved.")
    event = Feedback.objects.get()
    assert (event.rater, event.value, event.trace.question) == ("user:bob", 1.0, "talk slowly")
    assert event.trace.response.startswith(WORDS)
    expect(talk.get_by_role("button", name="Good answer")).to_have_attribute("aria-pressed", "true")


def test_keys_alone_are_enough(talk: Page) -> None:
    talk.keyboard.type("first line")
    talk.keyboard.press("Shift+Enter")
    talk.keyboard.type("second line")
    talk.keyboard.press("Enter")
    expect(last(talk, "answer")).to_contain_text(WORDS)
    expect(last(talk, "question")).to_have_text("first line\nsecond line")
    talk.keyboard.press("Shift+Tab")
    expect(talk.get_by_role("button", name="Bad answer")).to_be_focused()
    talk.keyboard.press("Enter")
    expect(last(talk, "saved")).to_have_text("Thank you, saved.")
    talk.keyboard.press("Enter")
    expect(last(talk, "saved")).to_have_text("Taken back.")
    assert [event.kind for event in Feedback.objects.order_by("id")] == ["rating", "retraction"]


def test_the_conversation_goes_on_until_a_new_one_begins(talk: Page, upstream: UpstreamDouble) -> None:
    for number, question in enumerate(("first", "second"), start=1):
        ask(talk, question)
        expect(talk.locator(".turn .thumbs:visible")).to_have_count(number)
    assert [message["content"][:20] for message in upstream.last["messages"]] == ["first", WORDS[:20], "second"]
    sessions = until(lambda: len(rows := list(Trace.objects.values_list("session_id", flat=True))) == 2 and rows)
    assert len(set(sessions)) == 1
    talk.get_by_role("button", name="New conversation").click()
    expect(talk.locator(".turn")).to_have_count(0)
    ask(talk, "third")
    expect(talk.locator(".turn .thumbs:visible")).to_have_count(1)
    assert [message["content"] for message in upstream.last["messages"]] == ["third"]
    assert until(lambda: Trace.objects.exclude(session_id=sessions[0]).count() == 1)


@pytest.mark.parametrize("how", ["key", "button"])
def test_an_answer_can_be_stopped_and_what_was_said_rated(talk: Page, upstream: UpstreamDouble, how: str) -> None:
    upstream.cancelled.clear()
    ask(talk, "talk for ever")
    expect(last(talk, "answer")).to_contain_text("more")
    if how == "key":
        talk.keyboard.press("Escape")
    else:
        talk.get_by_role("button", name="Stop").click()
    expect(last(talk, "ending")).to_have_text("Stopped.")
    expect(talk.get_by_role("button", name="Send")).to_be_visible()
    assert upstream.cancelled.wait(60)
    talk.get_by_role("button", name="Bad answer").click()
    expect(last(talk, "saved")).to_have_text("Thank you, saved.")


def test_texts_are_text_and_never_markup(talk: Page) -> None:
    ask(talk, "<img src=x onerror=alert(1)><b>bold</b>")
    expect(last(talk, "question")).to_have_text("<img src=x onerror=alert(1)><b>bold</b>")
    expect(last(talk, "answer.markdown")).to_contain_text(WORDS)
    assert talk.locator(".turn :is(img, b)").count() == 0


def test_markdown_of_an_answer_is_shown_as_on_other_pages_and_goes_on_as_it_was_written(
    talk: Page, upstream: UpstreamDouble
) -> None:
    written = "Take **two** of\n\n- [eggs](javascript:alert(1))\n- <img src=x onerror=alert(1)>"
    upstream.script["What do I take?"] = {"support-chat-v2": written}
    ask(talk, "What do I take?")
    expect(last(talk, "answer strong")).to_have_text("two")
    expect(last(talk, "answer li")).to_have_count(2)
    assert talk.locator(".turn :is(img, a)").count() == 0
    ask(talk, "and then?")
    expect(talk.locator(".turn .thumbs:visible")).to_have_count(2)
    assert upstream.last["messages"][1]["content"].rstrip() == written


def test_an_answer_that_was_cut_says_so_and_goes_on_by_a_click(talk: Page, upstream: UpstreamDouble) -> None:
    ask(talk, "talk too long")
    expect(last(talk, "ending")).to_contain_text("Cut off here: it has reached the longest length of an answer.")
    talk.get_by_label("Your question").fill("a draft")
    talk.get_by_role("button", name="Let it go on").click()
    expect(talk.locator(".turn .thumbs:visible")).to_have_count(2)
    asked = [message["content"] for message in upstream.last["messages"]]
    assert (asked[0], asked[2]) == ("talk too long", "Please go on where you stopped.")
    expect(talk.get_by_label("Your question")).to_have_value("a draft")
    expect(talk.get_by_role("button", name="Let it go on")).to_have_count(0)


@pytest.mark.parametrize(
    ("question", "words"),
    [
        ("status 500", "No answer: the server of v2 answered 500"),
        ("break off", "The answer broke off: the server of v2 broke off: out of memory"),
        ("status 429", "No answer: too long"),
    ],
)
def test_what_goes_wrong_is_said_in_words(talk: Page, console: Console, question: str, words: str) -> None:
    console.allow("the server responded with a status of")
    ask(talk, question)
    expect(last(talk, "ending")).to_contain_text(words)
    expect(talk.get_by_role("button", name="Send")).to_be_visible()


def test_a_question_that_got_no_answer_is_in_the_box_again(talk: Page, context, console: Console) -> None:
    console.allow("ERR_INTERNET_DISCONNECTED")
    context.set_offline(True)
    ask(talk, "are you there?")
    expect(last(talk, "ending")).to_have_text("No answer: The site cannot be reached. Is it still running?")
    expect(talk.get_by_label("Your question")).to_have_value("are you there?")
    context.set_offline(False)
    talk.keyboard.press("Enter")
    expect(last(talk, "answer")).to_contain_text(WORDS)


def test_who_is_signed_out_meanwhile_is_told(talk: Page, context: BrowserContext) -> None:
    context.clear_cookies(name="sessionid")
    ask(talk, "hello")
    expect(last(talk, "ending")).to_have_text("No answer: You are signed out. Reload the page to sign in again.")


def test_it_fits_a_phone_in_the_dark_with_long_words(talk: Page, screenshot) -> None:
    talk.emulate_media(color_scheme="dark")
    talk.set_viewport_size({"width": 375, "height": 700})
    ask(talk, "word" * 200)
    expect(last(talk, "answer")).to_contain_text(WORDS)
    assert talk.evaluate("document.documentElement.scrollWidth") <= 375
    for name in ("Good answer", "Bad answer", "Send"):
        box = talk.get_by_role("button", name=name).bounding_box()
        assert box is not None
        assert box["height"] >= 44
        assert box["y"] + box["height"] <= 700
    screenshot(talk, "try-phone-dark")


def test_where_nothing_answers_it_names_the_command(
    page: Page, context, agent: Agent, bob: User, site: LiveSite
) -> None:
    sign_in(context, site, bob)
    page.goto(f"{site.url}/try/")
    expect(page.get_by_role("heading", name="No version of support-chat answers yet")).to_be_visible()
    expect(page.locator("#unserved code")).to_contain_text("manage.py deploy_model --agent support-chat --version base")


def test_before_and_after_stand_side_by_side(talk: Page, agent: Agent, screenshot) -> None:
    """Answers of a quickstart."""
    samples = [
        {
            "prompt": row["prompt"],
            "base": {"answer": row["before"], "errors": []},
            "new": {"answer": row["after"], "errors": []},
        }
        for row in json.loads(ANSWERS.read_text(encoding="utf-8"))
    ]
    evaluation = measured(agent, {"guards": {"samples": samples}})
    Deployment.objects.filter(agent=agent).update(version=evaluation.version)
    talk.reload()
    talk.get_by_role("link", name="Before and after").click()
    sides = talk.locator(".before-after li:first-child .side")
    expect(sides).to_have_count(2)
    tops = [box["y"] for side in sides.all() if (box := side.bounding_box())]
    assert tops[0] == tops[1]
    screenshot(talk, "before-and-after")
    talk.set_viewport_size({"width": 375, "height": 700})
    assert talk.evaluate("document.documentElement.scrollWidth") <= 375
