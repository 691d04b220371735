"""A version that nobody can judge waits; two people pick between its answers and those of the version in use, on the pages
themselves, until it is promoted."""

import pytest
from django.contrib.auth.models import User
from playwright.sync_api import Browser, BrowserContext, Page, expect

from rl import tasks
from rl.base.records import GeneratedAnswer
from rl.evaluation.duels import Given, make_duels
from rl.models import Agent, Deployment, Evaluation, Feedback
from tests.admin.records import make_evaluation, make_run, make_training_set, make_version
from tests.browser.conftest import Console, LiveSite, sign_in
from tests.conftest import make_trace
from tests.waiting import until

pytestmark = pytest.mark.process
SHORT, LONG = "In a bread box.", "Keeping bread fresh is a delicate art that requires patience and a bit of luck."
DUELS = 30


@pytest.fixture
def waiting(agent: Agent, transactional_db: None) -> Evaluation:
    """v2 says what people like."""
    first, second = make_version(agent, "v1"), make_version(agent, "v2", stage="evaluated")
    Deployment.objects.create(agent=agent, version=first, target="openai", url="http://127.0.0.1:9", alias="champion")
    training_set = make_training_set(agent)
    make_run(agent, version=second, training_set=training_set, options={"data": {}})
    report = {
        "reason": "Nobody can tell yet. Now people have to pick.",
        "evidence": [{"kind": "margins", "prompts": 9}],
    }
    evaluation = make_evaluation(second, training_set, verdict="undecided", against=first, report=report)
    prompts = [make_trace(agent, f"How do I keep bread number {number} fresh?").prompt_key for number in range(DUELS)]
    new, old = GeneratedAnswer(SHORT, 9, 4), GeneratedAnswer(LONG, 9, 16)
    evaluation.report |= {"duels": make_duels(evaluation, [Given(prompt, new, old, 99) for prompt in prompts])}
    evaluation.save()
    return evaluation


def take_the_short_one(page: Page, agent: Agent, times: int) -> None:
    """By key, as a person does; blind: the page does not say whose it is."""
    for _ in range(times):
        before = Feedback.objects.filter(agent=agent).count()
        first = page.locator("#answers .answer").first
        expect(first).to_contain_text("bread")
        expect(page.locator("#item")).not_to_contain_text("v2")
        page.keyboard.press("a" if SHORT in first.inner_text() else "b", delay=50)
        until(lambda before=before: Feedback.objects.filter(agent=agent).count() > before)


def test_two_people_pick_until_the_new_version_is_in_use(
    page: Page,
    context: BrowserContext,
    browser: Browser,
    live_site: LiveSite,
    agent: Agent,
    waiting: Evaluation,
    alice: User,
    bob: User,
    console: Console,
    screenshot,
) -> None:
    sign_in(context, live_site, bob)
    page.goto(live_site.url)
    needs = page.get_by_role("region", name="What needs somebody")
    expect(needs).to_contain_text("compare answers: people's picks decide about v2")
    page.goto(f"{live_site.url}/versions/support-chat/v2/")
    expect(page.locator(".verdict")).to_contain_text(
        "Nobody has picked yet: it takes about 64 picks of all people together if v2 is clearly better"
    )
    screenshot(page, "version-duels")
    page.get_by_role("link", name="Compare answers (30)").click()
    other = browser.new_context(reduced_motion="reduce")
    console.watch(other)
    sign_in(other, live_site, alice)
    theirs = other.new_page()
    theirs.goto(page.url)
    for one in (page, theirs, page, theirs):
        take_the_short_one(one, agent, 2)
    assert [evaluation.pk for evaluation in map(_settled, tasks.look_at_duels())] == []
    page.goto(f"{live_site.url}/versions/support-chat/v2/")
    expect(page.locator(".verdict")).to_contain_text(
        "Not decided yet: 8 for v2, 0 for v1; at least 4 more picks are needed, and more still if any is for v1."
    )
    page.get_by_role("link", name="Compare answers (22)").click()
    for one in (page, theirs):
        take_the_short_one(one, agent, 2)
    other.close()
    assert tasks.look_at_duels() == [waiting.pk]
    assert _settled(waiting.pk).verdict == "promote"
    page.goto(f"{live_site.url}/versions/support-chat/v2/")
    expect(page.locator("h1 .badge")).to_have_text("in use")
    expect(page.locator(".verdict h2")).to_have_text("v2 is better")
    expect(page.locator(".say")).to_contain_text("It is picked in 100 % of comparisons by people against v1")
    raters = Feedback.objects.values_list("rater", flat=True)
    assert (raters.count(), len(set(raters))) == (12, 2)


def _settled(number: int) -> Evaluation:
    tasks.settle_duels(number)
    return Evaluation.objects.filter(version__name="v2").first()
