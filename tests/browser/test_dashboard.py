from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.utils import timezone
from playwright.sync_api import Page, expect

from rl.models import Agent, Deployment, Feedback, TrainingRun
from tests.admin.records import make_loop, make_run
from tests.browser.conftest import Console, LiveSite, look_again
from tests.conftest import make_trace

pytestmark = pytest.mark.process


@pytest.fixture
def loop(live_site: LiveSite, agent: Agent, queue_at_work: None) -> Agent:
    """Two agents, one in the middle of a run, and ratings on the last 30 days."""
    make_loop(agent, 40)
    Deployment.objects.update(alias="champion")
    make_run(agent, TrainingRun.State.RUNNING, step=14, total_steps=40)
    make_loop(Agent.objects.create(name="widget-selector", min_samples_to_retrain=20), 12)
    traces = [make_trace(agent, f"question {number}", f"answer {number}") for number in range(80)]
    rating = {"agent": agent, "kind": "rating", "rater": "user:x", "scale": "thumb", "raw_value": 1, "value": 1}
    events = Feedback.objects.bulk_create([Feedback(trace=trace, **rating) for trace in traces])
    for number, event in enumerate(events):
        event.created_at = timezone.now() - timedelta(days=number % 13 + number % 17)
    Feedback.objects.bulk_update(events, ["created_at"])
    return agent


@pytest.fixture
def dashboard(staff_page: Page, live_site: LiveSite, loop: Agent) -> Page:
    staff_page.goto(live_site.url)
    return staff_page


def test_it_draws_the_ratings_and_tells_what_can_be_trained(dashboard: Page, screenshot) -> None:
    expect(dashboard.locator("#days-chart canvas")).to_be_visible()
    expect(dashboard.get_by_text("80 of 100 for the next run")).to_be_visible()
    screenshot(dashboard, "dashboard")
    dashboard.get_by_text("The numbers").click()
    expect(dashboard.locator("#days-table tbody tr")).to_have_count(30)


def test_an_open_one_notices_a_run_that_started_by_itself(dashboard: Page) -> None:
    expect(dashboard.locator("#days-chart canvas")).to_be_visible()
    run = make_run(Agent.objects.get(name="widget-selector"), TrainingRun.State.RUNNING, step=1, total_steps=9)
    look_again(dashboard)
    expect(dashboard.get_by_role("link", name=f"run {run.pk}", exact=True)).to_be_visible()
    expect(dashboard.locator("#days-chart canvas")).to_be_visible()


def test_it_leads_to_the_run(dashboard: Page) -> None:
    dashboard.locator(".agent > p a[href^='/runs/']").first.click()
    expect(dashboard.get_by_role("heading", name="Loss and accuracy")).to_be_visible()


def test_it_is_dark_where_the_system_is(dashboard: Page, screenshot) -> None:
    dashboard.emulate_media(color_scheme="dark")
    expect(dashboard.locator("#days-chart canvas")).to_have_count(1)
    assert dashboard.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(15, 18, 23)"
    screenshot(dashboard, "dashboard-dark")


def test_signing_in_leads_to_where_one_wanted_to_go(page: Page, live_site: LiveSite, loop: Agent, bob: User) -> None:
    page.goto(f"{live_site.url}/rate/")
    page.get_by_label("User name").fill("bob")
    page.get_by_label("Password").fill("bob-runs-this-place")
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("heading", name="Rate answers")).to_be_visible()
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()


def test_five_wrong_passwords_lock_the_page(page: Page, live_site: LiveSite, console: Console, bob: User) -> None:
    console.allow("429")
    page.goto(f"{live_site.url}/login/")
    for _ in range(5):
        page.get_by_label("User name").fill("bob")
        page.get_by_label("Password").fill("wrong")
        page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("heading", name="Too many wrong passwords")).to_be_visible()
    expect(page.get_by_role("alert")).to_contain_text("Try again in 15 minutes")
