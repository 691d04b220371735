"""Whose feedback is held back, how far raters agree, which version wins: looked at, and decided, in a browser."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User
from playwright.sync_api import BrowserContext, Page, expect

from rl.models import Agent, Quarantine, RatingQueue
from rl.trust import quarantine
from tests.browser.conftest import LiveSite
from tests.browser.test_rating_page import sign_in
from tests.conftest import make_trace
from tests.trust.test_quarantine import rate_quickly
from tests.trust.test_reading import decide
from tests.trust.test_table import test_picks_between_a_version_and_the_base_model_make_a_table as make_picks

pytestmark = pytest.mark.process


@pytest.fixture
def desk(page: Page, context: BrowserContext, live_site: LiveSite, bob: User) -> Page:
    sign_in(context, live_site, bob)
    return page


def test_the_pages_fit_a_phone_and_feedback_is_released_by_keys(
    desk: Page, live_site: LiveSite, agent: Agent, screenshot
) -> None:
    rate_quickly(agent)
    quarantine.look()
    queue = RatingQueue.objects.create(agent=agent, name="returns")
    for number in range(4):
        trace = make_trace(agent, f"Where is parcel {number}?")
        decide(queue, trace, "user:alice", {"value": 1.0})
        decide(queue, trace, "device:robot", {"value": float(number % 2)})
    make_picks(agent)
    desk.set_viewport_size({"width": 375, "height": 800})
    for scheme in ("light", "dark"):
        desk.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
        for at, path in enumerate(
            ("rate/support-chat/returns/raters", "experiments/versions/support-chat", "rate/held-back")
        ):
            desk.goto(f"{live_site.url}/{path}/")
            assert desk.evaluate("document.documentElement.scrollWidth") <= 375
            screenshot(desk, f"trust-{scheme}-{at}")
    desk.get_by_role("button", name="Release device:robot").focus()
    desk.keyboard.press("Enter")
    expect(desk.get_by_role("heading", name="Nothing is held back")).to_be_visible()
    assert Quarantine.objects.get().released_by == "bob"
