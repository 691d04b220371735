"""The first half hour of somebody who has run quickstart, in twelve pictures: talk, vote, edit, train, read, invite.

The answers, the losses and the verdict in ``story.json`` are those of a real run of SmolLM2 on twenty votes; here they are
played again, so that the pictures are the same wherever they are taken.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.utils import timezone
from playwright.sync_api import Browser, BrowserContext, Page, expect

from rl.models import Agent, AnswerPair, Deployment, Evaluation, Feedback, MetricPoint, ModelVersion, TrainingRun
from tests.admin.records import make_training_set, make_version
from tests.browser.axe import findings
from tests.browser.conftest import LiveSite, sign_in
from tests.browser.test_duels import newest
from tests.browser.test_try_page import ask
from tests.conftest import make_trace
from tests.serving.gateway.upstream_double import UpstreamDouble

pytestmark = pytest.mark.process


STORY: dict[str, Any] = json.loads((Path(__file__).parent / "story.json").read_text(encoding="utf-8"))
SITE_URL = "https://ratings.acme.example"
ANSWERS: dict[str, dict[str, str]] = STORY["answers"]


@pytest.fixture
def everyday(db: None) -> Agent:
    agent = Agent.objects.create(name="everyday", base_model="smollm2", min_samples_to_retrain=20)
    for question in ANSWERS:
        make_trace(agent, question, "An answer that the demo brings along.", source="demo")
    return agent


@pytest.fixture
def served(everyday: Agent, upstream: UpstreamDouble) -> Iterator[Agent]:
    """The base model and v1, as after quickstart."""
    upstream.script.update(ANSWERS)
    serve(everyday, upstream, None)
    serve(everyday, upstream, make_version(everyday, "v1"))
    yield everyday
    upstream.script.clear()


def serve(agent: Agent, upstream: UpstreamDouble, version: ModelVersion | None) -> None:
    """In use from now on."""
    Deployment.objects.filter(agent=agent).update(alias="")
    name = version.name if version else "base"
    Deployment.objects.create(
        agent=agent, version=version, target="openai", url=upstream.url, model_name=name, alias="champion"
    )


@pytest.fixture
def newcomer(
    page: Page, context: BrowserContext, bob: User, site: LiveSite, served: Agent, queue_at_work: None, settings: Any
) -> Page:
    settings.SITE_URL = SITE_URL
    Agent.objects.exclude(pk=served.pk).delete()
    sign_in(context, site, bob)
    page.set_viewport_size({"width": 1280, "height": 800})
    page.goto(f"{site.url}/try/")
    return page


def vote_for_the_short_one(page: Page) -> None:
    expect(newest(page, ".side[aria-busy=false]")).to_have_count(2)
    left, right = newest(page, ".answer").all_inner_texts()
    page.keyboard.press("ArrowLeft" if len(left) < len(right) else "ArrowRight")
    expect(newest(page, ".saved")).to_contain_text("Saved.")


def end_the_training(agent: Agent, upstream: UpstreamDouble) -> ModelVersion:
    """As the recorded run ended."""
    version, run = make_version(agent, "v2"), TrainingRun.objects.get()
    against = ModelVersion.objects.get(agent=agent, name="v1")
    learned = make_training_set(agent)
    Feedback.objects.filter(agent=agent).update(training_set=learned)
    Evaluation.objects.create(version=version, against=against, training_set=learned, **STORY["evaluation"])
    if STORY["evaluation"]["verdict"] == Evaluation.Verdict.PROMOTE:
        serve(agent, upstream, version)
    TrainingRun.objects.filter(pk=run.pk).update(
        state="succeeded", version=version, finished_at=timezone.now(), step=run.total_steps
    )
    return version


@pytest.mark.slow
def test_twenty_votes_train_a_version_that_answers_ones_own_questions(
    newcomer: Page, browser: Browser, site: LiveSite, served: Agent, upstream: UpstreamDouble, screenshot: Any
) -> None:
    page, questions = newcomer, list(ANSWERS)
    expect(page.get_by_role("group", name="Questions to begin with").get_by_role("button")).to_have_count(5)
    screenshot(page, "story-01-begin")
    ask(page, questions[0])
    expect(newest(page, ".votes")).to_be_visible()
    expect(newest(page, ".side[aria-busy=false]")).to_have_count(2)
    screenshot(page, "story-02-two-answers")
    vote_for_the_short_one(page)
    screenshot(page, "story-03-voted")
    for number, question in enumerate(questions[1:20], start=1):
        page.keyboard.press("/")
        page.keyboard.type(question)
        page.keyboard.press("Enter")
        vote_for_the_short_one(page)
        if number in (3, 6, 9):
            page.keyboard.press("z")
            expect(newest(page, ".saved")).to_contain_text("Taken back.")
            vote_for_the_short_one(page)
        if number == 4:
            page.keyboard.press("e")
            page.keyboard.press("Control+a")
            page.keyboard.type(STORY["edit"])
            screenshot(page, "story-04-edit")
            page.keyboard.press("Control+Enter")
            expect(newest(page, ".saved")).to_have_text("Your version is saved.")
    expect(page.locator("#votes-text")).to_contain_text("enough for a training (20)")
    votes = Feedback.objects.filter(kind="comparison", is_current=True)
    assert (votes.count(), AnswerPair.objects.count()) == (20, 20)
    page.evaluate("scrollTo(0, 0)")
    screenshot(page, "story-05-twenty-votes")
    train_and_watch(page, screenshot)
    version = end_the_training(served, upstream)
    expect(page.locator("#own-list li")).to_have_count(5)
    expect(page.locator("#own-list li").last.locator(".after-text")).not_to_be_empty()
    expect(page.locator("#votes-text")).to_have_text("0 of 20 votes to the next training")
    page.evaluate("document.getElementById('own').scrollIntoView()")
    screenshot(page, "story-07-before-and-after")
    assert findings(page) == []
    read_on(page, site, version, screenshot)
    invite(page, browser, site, screenshot)


def train_and_watch(page: Page, screenshot: Any) -> None:
    page.get_by_role("button", name="Train now").click()
    expect(page.locator("#run")).to_be_visible()
    run = TrainingRun.objects.get()
    MetricPoint.objects.bulk_create(MetricPoint(run=run, step=step, values=values) for step, values in STORY["points"])
    last, total = STORY["points"][-1][0], STORY["total_steps"]
    TrainingRun.objects.update(state="running", stage="training", step=last, total_steps=total)
    expect(page.locator("#run-steps")).to_have_text(f"{last} of {total} steps")
    expect(page.locator("#run-chart canvas")).to_be_visible()
    screenshot(page, "story-06-training")


def read_on(page: Page, site: LiveSite, version: ModelVersion, screenshot: Any) -> None:
    page.goto(f"{site.url}/versions/everyday/{version.name}/")
    screenshot(page, "story-08-version")
    page.goto(f"{site.url}/agents/everyday/")
    screenshot(page, "story-09-agent")
    page.goto(site.url)
    expect(page.get_by_role("heading", name="Dashboard")).to_be_visible()
    screenshot(page, "story-10-dashboard")


def invite(page: Page, browser: Browser, site: LiveSite, screenshot: Any) -> None:
    page.goto(f"{site.url}/rate/everyday/answers/settings/")
    page.get_by_label("For", exact=True).fill("Dr. Dora")
    page.get_by_role("button", name="Invite").click()
    link = page.locator("code.link").inner_text()
    page.get_by_role("heading", name="Invitations").evaluate("heading => heading.scrollIntoView()")
    screenshot(page, "story-11-invite")
    guest = browser.new_context(viewport={"width": 375, "height": 740}).new_page()
    guest.goto(link.replace(SITE_URL, site.url))
    guest.get_by_role("button", name="Begin").click()
    expect(guest.locator("#question")).to_contain_text("?")
    screenshot(guest, "story-12-guest")
    guest.context.close()
