"""The site in a hand: a narrow screen that is touched."""

from collections.abc import Iterator

import pytest
from django.contrib.auth.models import User
from playwright.sync_api import Browser, BrowserContext, expect

from rl.models import Agent
from tests.browser.conftest import LiveSite, sign_in
from tests.conftest import make_trace

pytestmark = pytest.mark.process


@pytest.fixture
def phone(browser: Browser, live_site: LiveSite, agent: Agent, bob: User) -> Iterator[BrowserContext]:
    make_trace(agent)
    touched = browser.new_context(viewport={"width": 375, "height": 740}, has_touch=True)
    sign_in(touched, live_site, bob)
    yield touched
    touched.close()


@pytest.mark.parametrize("path", ["/", "/rate/", "/traces/", "/runs/", "/login/"])
def test_the_header_takes_at_most_56_pixels(phone: BrowserContext, live_site: LiveSite, path: str) -> None:
    page = phone.new_page()
    page.goto(f"{live_site.url}{path}")
    assert page.evaluate("document.querySelector('header.top').getBoundingClientRect().height") <= 56
    assert page.evaluate("document.documentElement.scrollWidth") <= 375


def test_the_menu_has_every_page_and_the_way_out(phone: BrowserContext, live_site: LiveSite) -> None:
    page = phone.new_page()
    page.goto(live_site.url)
    main = page.get_by_role("navigation", name="Main")
    expect(main).to_be_hidden()
    page.get_by_role("button", name="Menu").click()
    expect(page.get_by_role("button", name="Sign out")).to_be_visible()
    links = ["Try", "Rate", "Agents", "Runs", "Experiments", "Traces", "Admin"]
    assert main.get_by_role("link").all_inner_texts() == links
    main.get_by_role("link", name="Rate").click()
    expect(page.get_by_role("heading", name="Rate answers")).to_be_visible()


def test_nothing_on_the_rating_page_speaks_of_keys(phone: BrowserContext, live_site: LiveSite) -> None:
    page = phone.new_page()
    page.goto(f"{live_site.url}/rate/support-chat/")
    expect(page.get_by_role("button", name="Good")).to_be_visible()
    for hint in [*page.locator("kbd").all(), page.locator(".by-key"), page.locator("#keys-line")]:
        expect(hint).to_be_hidden()
