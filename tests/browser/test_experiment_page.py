"""The page of an experiment that goes on while somebody looks, and decides."""

import random

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from rl.models import Agent, Arm, Assignment, Deployment, Experiment, Feedback, Quarantine, RatingQueue
from rl.serving.experiments import lifecycle
from rl.trust import quarantine
from tests.browser.conftest import LiveSite
from tests.conftest import make_trace
from tests.serving.experiments.experimenting import answers, arms_of, make_experiment, version_of
from tests.trust.test_quarantine import rate_quickly
from tests.trust.test_reading import decide
from tests.trust.test_reading import test_picks_between_a_version_and_the_base_model_make_a_table as make_picks

pytestmark = pytest.mark.process


def rate_more(experiment: Experiment, users: int, rates: tuple[float, float] = (0.52, 0.6), seed: int = 7) -> None:
    """So many more users an arm, who come in one by one."""
    rng = random.Random(seed)
    rows = []
    for arm, chance in zip(arms_of(experiment), rates, strict=True):
        units = [f"user {arm.pk} {seed} {number}" for number in range(users)]
        Assignment.objects.bulk_create(Assignment(experiment=experiment, arm=arm, unit=unit) for unit in units)
        for trace in answers(arm, units):
            value = int(rng.random() < chance)
            fields = {"kind": "rating", "scale": "thumb", "rater": "device:1", "raw_value": value, "value": value}
            rows.append(Feedback(agent=experiment.agent, trace=trace, **fields))
        Arm.objects.filter(pk=arm.pk).update(requests=arm.requests + 3 * users)
    rng.shuffle(rows)
    Feedback.objects.bulk_create(rows)


@pytest.fixture
def experiment(live_site: LiveSite, agent: Agent, data_dir) -> Experiment:
    experiment = make_experiment(
        agent, name="v286 against the base model", guard_metric="error_rate", guard_margin=0.05
    )
    for row in ({"version": version_of(agent)}, {"version": None}):
        Deployment.objects.create(agent=agent, target="openai", url="http://127.0.0.1:9", model_name="m", **row)
    rate_more(experiment, 240)
    return experiment


@pytest.fixture
def desk(page: Page, staff: BrowserContext, live_site: LiveSite, experiment: Experiment) -> Page:
    page.goto(f"{live_site.url}/experiments/{experiment.pk}/")
    expect(page.locator(".experiment-chart canvas")).to_be_visible()
    return page


def samples(page: Page, name: str) -> str | None:
    return page.locator("#arms tr", has_text=name).locator('[data-cell="samples"]').text_content()


def test_it_draws_the_interval_and_tells_what_is_missing(desk: Page, screenshot) -> None:
    expect(desk.locator("#answer")).to_have_text("No answer yet")
    expect(desk.locator("#reason")).to_contain_text("more rated users are needed.")
    assert samples(desk, "v286") == "240"
    desk.set_viewport_size({"width": 1100, "height": 1060})
    screenshot(desk, "experiment")
    desk.get_by_text("The numbers").click()
    rows = desk.locator("tbody tr", has=desk.locator("td:nth-child(4)")).and_(desk.locator("[id^=table-] tr"))
    assert 30 < rows.count() <= 121
    expect(rows.first.locator("td").first).to_have_text("480")


def test_new_ratings_appear_by_themselves(desk: Page, experiment: Experiment) -> None:
    rate_more(experiment, 20, seed=6)
    come_back(desk)
    expect(desk.locator("#arms tr", has_text="v286").locator('[data-cell="samples"]')).to_have_text("260")


def come_back(page: Page) -> None:
    """As somebody who looked elsewhere: the page asks at once."""
    page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")


def test_the_answer_appears_by_itself(desk: Page, experiment: Experiment, agent: Agent) -> None:
    rate_more(experiment, 300, rates=(0.3, 0.8), seed=8)
    assert lifecycle.tick() == [experiment]
    come_back(desk)
    expect(desk.locator("#answer")).to_have_text("A challenger is better")
    expect(desk.locator("#reason")).to_contain_text("v286 is better than base")
    expect(desk.get_by_text("Stop without an answer")).to_have_count(0)
    assert Deployment.champion(agent) == version_of(agent)


def test_a_stopped_experiment_is_asked_for_once(desk: Page, experiment: Experiment) -> None:
    lifecycle.stop(experiment, "bob")
    desk.reload()
    asked: list[str] = []
    desk.on("request", lambda request: asked.append(request.url) if "look.json" in request.url else None)
    come_back(desk)
    desk.wait_for_timeout(300)
    assert asked == []


def test_an_arm_is_promoted_by_keys_alone_and_after_a_question(
    desk: Page, experiment: Experiment, agent: Agent
) -> None:
    desk.get_by_text("Promote v286", exact=True).focus()
    desk.keyboard.press("Enter")
    expect(desk.get_by_text("v286 answers all users from now on, and the experiment ends.")).to_be_visible()
    desk.keyboard.press("Tab")
    desk.keyboard.press("Enter")
    expect(desk.locator("#reason")).to_contain_text("bob chose v286.")
    assert Deployment.champion(agent) == version_of(agent)


def test_it_fits_a_phone_and_is_dark_where_the_system_is(desk: Page) -> None:
    desk.set_viewport_size({"width": 390, "height": 800})
    desk.emulate_media(color_scheme="dark")
    expect(desk.locator(".experiment-chart canvas")).to_have_count(1)
    assert desk.evaluate("document.documentElement.scrollWidth") <= 390
    assert desk.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(15, 18, 23)"


def test_the_list_leads_to_it_and_a_draft_is_started(
    page: Page, staff, live_site: LiveSite, agent: Agent, data_dir
) -> None:
    make_experiment(agent, running=False)
    page.goto(f"{live_site.url}/experiments/")
    page.get_by_role("link", name="first").click()
    expect(page.get_by_text("Nothing to draw until both sides have rated users.")).to_be_visible()
    page.get_by_role("button", name="Start the experiment").click()
    expect(page.locator("#answer")).to_have_text("No answer yet")
    expect(page.locator("#reason")).to_contain_text("there are no rated users of both")


def test_the_pages_fit_a_phone_and_feedback_is_released_by_keys(
    staff_page: Page, live_site: LiveSite, agent: Agent, screenshot
) -> None:
    rate_quickly(agent)
    quarantine.look()
    queue = RatingQueue.objects.create(agent=agent, name="returns")
    for number in range(4):
        trace = make_trace(agent, f"Where is parcel {number}?")
        decide(queue, trace, "user:alice", {"value": 1.0})
        decide(queue, trace, "device:robot", {"value": float(number % 2)})
    make_picks(agent)
    staff_page.set_viewport_size({"width": 375, "height": 800})
    for scheme in ("light", "dark"):
        staff_page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
        for at, path in enumerate(
            ("rate/support-chat/returns/raters", "experiments/versions/support-chat", "rate/held-back")
        ):
            staff_page.goto(f"{live_site.url}/{path}/")
            assert staff_page.evaluate("document.documentElement.scrollWidth") <= 375
            screenshot(staff_page, f"trust-{scheme}-{at}")
    staff_page.get_by_role("button", name="Release device:robot").focus()
    staff_page.keyboard.press("Enter")
    expect(staff_page.get_by_role("heading", name="Nothing is held back")).to_be_visible()
    assert Quarantine.objects.get().released_by == "bob"
