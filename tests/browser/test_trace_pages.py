"""Traces as a reviewer reads and labels them."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User
from playwright.sync_api import BrowserContext, Page, expect

from rl.collect.feedback.write import rate
from rl.models import Agent, Feedback, Trace
from tests.browser.conftest import LiveSite
from tests.browser.test_rating_page import sign_in
from tests.conftest import make_trace

pytestmark = pytest.mark.process


HAPPENED = {
    "tool_calls": [
        {
            "tool_name": "find_order",
            "arguments": {"order": "A-1071"},
            "success": True,
            "duration_ms": 38,
            "result": {"carrier": "blue", "state": "left the warehouse"},
        },
        {
            "tool_name": "ask_carrier",
            "arguments": {"parcel": "77-10"},
            "success": False,
            "duration_ms": 2000,
            "error": "the carrier did not answer in time",
        },
    ],
    "reasoning_steps": [
        {"step_type": "plan", "content": "Find the order first, then ask its carrier.", "confidence": 0.8}
    ],
    "tasks": [
        {"task_id": "find", "status": "completed", "description": "find the parcel", "result": "with the carrier"},
        {"task_id": "time", "status": "failed", "description": "when does it arrive?", "error": "no answer"},
    ],
    "rewards": {
        "tool_success": {"value": 0.5, "weight": 2.0, "reason": "1 of 2 tool calls succeeded"},
        "task_completion": {"value": 0.5, "weight": 1.5, "reason": "1 of 2 tasks completed"},
        "efficiency": {"value": 0.9, "weight": 0.5, "reason": "2 tool calls, 412 tokens"},
        "code_execution": {"value": None, "weight": 2.0, "reason": "no code in the answer"},
    },
    "reward": 0.55,
    "reward_pending": False,
    "session_id": "chat-1071",
    "tokens_in": 301,
    "tokens_out": 111,
    "llm_calls": 3,
    "duration_ms": 4210,
}


@pytest.fixture
def traces(live_site: LiveSite, agent: Agent) -> list[Trace]:
    first = make_trace(agent, "Where is order A-1071?", "It left our warehouse this morning.", **HAPPENED)
    return [first, make_trace(agent, "Can I still cancel it?", "Not any more.", session_id="chat-1071")]


@pytest.fixture
def reviewer(page: Page, context: BrowserContext, live_site: LiveSite, traces: list[Trace], bob: User) -> Page:
    sign_in(context, live_site, bob)
    return page


def test_a_reviewer_walks_from_the_list_into_a_trace(reviewer: Page, live_site: LiveSite, screenshot) -> None:
    reviewer.goto(f"{live_site.url}/traces/")
    screenshot(reviewer, "traces")
    reviewer.get_by_role("row", name="A-1071").get_by_role("link").click()
    expect(reviewer.get_by_text("the carrier did not answer in time")).to_be_visible()
    expect(reviewer.get_by_role("row", name="tool_success")).to_contain_text("1 of 2 tool calls succeeded")
    expect(reviewer.locator("body")).to_have_js_property("scrollWidth", 1100)
    screenshot(reviewer, "trace")
    reviewer.keyboard.press("1")
    expect(reviewer.get_by_text("thumb (0 or 1): 1")).to_be_visible()
    reviewer.get_by_role("link", name="Can I still cancel it?").click()
    expect(reviewer.get_by_text("Not any more.").first).to_be_visible()


def test_a_double_click_on_a_label_is_one(reviewer: Page, live_site: LiveSite, traces: list[Trace]) -> None:
    posts: list[str] = []
    reviewer.on("request", lambda request: posts.append(request.url) if request.method == "POST" else None)
    reviewer.goto(f"{live_site.url}/traces/{traces[0].pk}/")
    reviewer.get_by_role("button", name="Good").dblclick()
    expect(reviewer.get_by_text("thumb (0 or 1): 1")).to_be_visible()
    assert len(posts) == 1


def test_traces_are_searched_and_picked_ones_are_kept_from_training(
    reviewer: Page, live_site: LiveSite, traces: list[Trace]
) -> None:
    reviewer.goto(f"{live_site.url}/traces/")
    reviewer.get_by_label("Words, or an id").fill("CANCEL")
    reviewer.get_by_role("button", name="Show").click()
    expect(reviewer.locator("tbody tr")).to_have_count(1)
    expect(reviewer.get_by_text("among the newest 20,000 traces")).to_be_visible()
    reviewer.get_by_label("Pick all on this page").check()
    expect(reviewer.locator("#picked-count")).to_have_text("1 picked")
    with reviewer.expect_download() as download:
        reviewer.get_by_role("button", name="Download as JSONL").click()
    assert download.value.suggested_filename == "traces.jsonl"
    reviewer.get_by_role("button", name="Never train on these").click()
    expect(reviewer.get_by_text("never trained on")).to_be_visible()
    expect(reviewer.get_by_label("Words, or an id")).to_have_value("CANCEL")
    assert [Trace.objects.get(pk=trace.pk).details.get("split") for trace in traces] == [None, "never"]


def test_the_switch_of_the_rating_page_turns_the_keys_off_here_too(
    reviewer: Page, live_site: LiveSite, traces: list[Trace]
) -> None:
    reviewer.goto(f"{live_site.url}/traces/")
    reviewer.evaluate("localStorage.setItem('ratchet-keys-off', '1')")
    reviewer.goto(f"{live_site.url}/traces/{traces[0].pk}/")
    expect(reviewer.locator(".vote kbd").first).to_be_hidden()
    reviewer.keyboard.press("1")
    expect(reviewer.get_by_label("Conversation")).to_contain_text("Where is order A-1071?")
    assert not Feedback.objects.exists()


def test_hostile_and_long_words_fit_a_narrow_screen(reviewer: Page, live_site: LiveSite, agent: Agent) -> None:
    word = "<img/src=x/onerror=alert(1)>" * 8
    long = make_trace(
        agent,
        word,
        word * 500,
        tool_calls=[{"tool_name": word, "arguments": {word: word}, "error": word}],
        reasoning_steps=[{"step_type": word, "content": word, "issues": [word]}],
        session_id=word[:150],
        tasks=[{"task_id": word, "status": "failed", "description": word}],
        rewards={word: {"value": 1, "reason": word}},
    )
    rate(long, rater=word[:200], scale="stars", value=3, tags=[word[:40]], notes=word, source="test")
    reviewer.set_viewport_size({"width": 375, "height": 740})
    for path in (f"/traces/{long.pk}/", "/traces/", "/traces/of/support-chat/"):
        reviewer.goto(f"{live_site.url}{path}")
        assert reviewer.evaluate("document.documentElement.scrollWidth") == 375, path
        assert reviewer.locator("img").count() == 1, path  # the site's own
