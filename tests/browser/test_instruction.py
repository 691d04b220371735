"""A newcomer says in a sentence what should be otherwise: the next answer is given so, and a click takes it back."""

import pytest
from playwright.sync_api import Page, expect

from rl.models import Agent, Deployment, Trace
from tests.browser.conftest import Console
from tests.browser.test_try_page import ask, talk  # noqa: F401  fixture
from tests.serving.gateway.upstream_double import UpstreamDouble
from tests.waiting import until

pytestmark = pytest.mark.process
SHORT = "Answer in one short sentence."


def answered(page: Page, upstream: UpstreamDouble, question: str) -> str:
    """What the model was asked in truth."""
    number = page.locator(".turn").count()
    ask(page, question)
    expect(page.locator(".turn .thumbs:visible")).to_have_count(number + 1)
    return str(upstream.last["messages"][-1]["content"])


def test_a_sentence_changes_the_next_answer_and_a_click_takes_it_back(
    talk: Page,  # noqa: F811
    agent: Agent,
    upstream: UpstreamDouble,
) -> None:
    assert answered(talk, upstream, "Why is the sky blue?") == "Why is the sky blue?"
    until(Trace.objects.exists)
    talk.get_by_text("What should be otherwise?").click()
    talk.get_by_label("Say it in a sentence").fill(SHORT)
    talk.get_by_role("button", name="Try it on past questions").click()
    status = talk.locator("#instruction-status")
    expect(status).to_have_text("One past question, answered without it and with it. Is it better?")
    assert upstream.last["messages"][-1]["content"] == f"Why is the sky blue?\n\n{SHORT}"
    expect(talk.locator("#instruction-place")).to_contain_text(
        "too few past questions were answered in both places to tell"
    )
    expect(talk.locator("#instruction-forecast")).to_contain_text("has no judge yet: run 'auto_label")
    expect(talk.locator("#tried .after-name")).to_have_text("v3")
    expect(talk.locator("#tried .after-text")).not_to_be_empty()
    talk.get_by_role("button", name="Use it").click()
    expect(status).to_have_text("It is in use: the next answer is given with it.")
    assert answered(talk, upstream, "And the sea?") == f"And the sea?\n\n{SHORT}"
    champion = Deployment.champion(agent)
    assert champion is not None
    assert champion.instruction == SHORT
    talk.get_by_role("button", name="Take it back").click()
    expect(status).to_have_text("It was taken back.")
    assert answered(talk, upstream, "And the grass?") == "And the grass?"


def test_what_is_left_changes_nothing_and_a_refusal_is_told(talk: Page, console: Console) -> None:  # noqa: F811
    console.allow("the server responded with a status of")
    talk.get_by_text("What should be otherwise?").click()
    talk.get_by_label("Say it in a sentence").fill(SHORT)
    talk.get_by_role("button", name="Try it on past questions").click()
    status = talk.locator("#instruction-status")
    expect(status).to_have_text("Nobody has asked anything yet: use it, and ask.")
    talk.get_by_role("button", name="Leave it").click()
    expect(status).to_have_text("Nothing was changed.")
    expect(talk.get_by_role("button", name="Use it")).to_be_hidden()
    talk.get_by_label("Say it in a sentence").fill("   ")
    talk.get_by_role("button", name="Try it on past questions").click()
    expect(status).to_have_text("say in a sentence what the answers should be like")


def test_on_a_phone_the_box_covers_nothing_before_the_first_question(talk: Page) -> None:  # noqa: F811
    talk.set_viewport_size({"width": 375, "height": 400})
    talk.get_by_label("Your question").focus()
    section, box = talk.locator("#instruction").bounding_box(), talk.locator(".composer").bounding_box()
    assert section is not None
    assert box is not None
    assert section["y"] + section["height"] <= box["y"]
