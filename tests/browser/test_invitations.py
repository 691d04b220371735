import pytest
from playwright.sync_api import Page, expect

from rl.models import Agent
from rl.queues import editing
from tests.browser.conftest import LiveSite

pytestmark = pytest.mark.process


@pytest.fixture
def invitations(staff_page: Page, live_site: LiveSite, agent: Agent) -> Page:
    queue = editing.queue_of(agent)
    assert queue is not None
    editing.invite(queue, "Dr. Dora")
    staff_page.goto(f"{live_site.url}/rate/{agent.name}/answers/settings/")
    return staff_page


def test_a_link_is_copied_with_one_click(invitations: Page) -> None:
    invitations.context.grant_permissions(["clipboard-read", "clipboard-write"])
    invitations.get_by_role("button", name="Copy link for Dr. Dora").click()
    expect(invitations.get_by_text("Copied")).to_be_visible()
    assert invitations.evaluate("navigator.clipboard.readText()") == invitations.locator("code.link").inner_text()


def test_where_nothing_may_be_copied_the_link_is_selected(invitations: Page) -> None:
    invitations.evaluate("() => { navigator.clipboard.writeText = () => Promise.reject(new Error('not allowed')); }")
    invitations.get_by_role("button", name="Copy link for Dr. Dora").click()
    expect(invitations.get_by_text("Selected: copy it")).to_be_visible()
    assert invitations.evaluate("String(getSelection())").strip() == invitations.locator("code.link").inner_text()


def test_a_link_is_drawn_for_a_phone_s_camera(invitations: Page, screenshot) -> None:
    invitations.get_by_text("QR code").click()
    drawn = invitations.get_by_role("img", name="The link of Dr. Dora as a QR code")
    expect(drawn).to_be_visible()
    drawn.scroll_into_view_if_needed()
    screenshot(invitations, "invitation-qr")
