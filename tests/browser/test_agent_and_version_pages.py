"""The pages of an agent and of a version, as a person sees them, wide and narrow, light and dark."""

from dataclasses import asdict

import pytest
from django.contrib.auth.models import User
from playwright.sync_api import BrowserContext, Page, expect

from rl.base.measurements import Interval
from rl.evaluation.judges import Judged
from rl.evaluation.measures.fresh import Fresh, check, estimate
from rl.evaluation.preferring import Terms, weigh
from rl.evaluation.stats.budget import at_look
from rl.models import Agent, Deployment, Evaluation, ModelVersion, TrainingRun
from tests.admin.records import make_evaluation, make_loop, make_run, make_training_set, make_version
from tests.browser.conftest import LiveSite, look_again, sign_in
from tests.evaluation.measures.test_fresh import contrasts_of
from tests.web.pages.test_version_page import FRESH, sample

pytestmark = pytest.mark.process


ANSWER = "Wrap it in a cloth and keep it in a bread box, away from the fridge."
LONG = "Keeping bread fresh is a delicate art that requires patience, attention to detail, and a bit of luck. "
MARGINS = Interval(0.12, -0.05, 0.27)


@pytest.fixture
def desk(page: Page, context: BrowserContext, live_site: LiveSite, agent: Agent, bob: User) -> Page:
    """Version v3, about which nobody can be sure yet."""
    first = make_version(agent, "v1")
    Deployment.objects.create(agent=agent, version=first, target="openai", url="http://127.0.0.1:9", alias="champion")
    worse = {"evidence": [FRESH | {"share": {"value": 0.36, "low": 0.25, "high": 0.48}}], "decided_by": "fresh"}
    make_evaluation(
        make_version(agent, "v2"), make_training_set(agent, 2), verdict="reject", report=worse, against=first
    )
    evaluation = Evaluation.objects.get(version=make_loop(agent, 3).version)
    ModelVersion.objects.filter(name="v3").update(parent=first)
    rails = [
        {"name": "empty_rate", "limit": 0.1, "broken": False, "text": "empty: 0 of 16 answers"},
        {"name": "kl_to_base", "limit": 2.0, "broken": False, "text": "0.31 nats a token from the base model"},
    ]
    evaluation.verdict, evaluation.against = "undecided", first
    share = {"share": {"value": 0.55, "low": 0.44, "high": 0.66}}
    margins = {"kind": "margins", "difference": {"value": 0.12, "low": -0.05, "high": 0.27}}
    samples = [sample("How do I keep bread fresh?", 3 * LONG, ANSWER), sample("And milk?", LONG, "In the fridge.")]
    report = {"reason": "The difference could be chance.", "decided_by": "fresh", "evidence": [FRESH | share, margins]}
    evaluation.report |= report | {"guards": {"rails": rails, "samples": samples}}
    evaluation.save()
    sign_in(context, live_site, bob)
    page.goto(f"{live_site.url}/agents/")
    return page


def test_an_open_page_of_an_agent_notices_a_run_that_started_by_itself(desk: Page, agent: Agent) -> None:
    expect(desk.locator('[aria-current="step"] h2')).to_have_text("Judge")
    run = make_run(agent, TrainingRun.State.RUNNING, stage="training")
    look_again(desk)
    expect(desk.locator('[aria-current="step"]')).to_contain_text(f"Run {run.pk} is running: training")
    desk.get_by_role("link", name=f"Run {run.pk}").focus()
    TrainingRun.objects.filter(pk=run.pk).update(stage="exporting")
    look_again(desk)
    desk.get_by_role("link", name=f"Run {run.pk}").blur()
    look_again(desk)
    expect(desk.locator('[aria-current="step"]')).to_contain_text("exporting")


def test_from_the_step_that_holds_the_loop_back_to_the_answers_that_changed(desk: Page, screenshot) -> None:
    expect(desk.locator('[aria-current="step"] h2')).to_have_text("Judge")
    expect(desk.get_by_role("img", name="v3: It wins 55 % of fresh answers against v1 (44 to 66 %).")).to_be_visible()
    desk.set_viewport_size({"width": 1100, "height": 1060})
    screenshot(desk, "agent-page")
    desk.set_viewport_size({"width": 1100, "height": 800})
    desk.get_by_role("link", name="v3 is perhaps better").click()
    expect(desk.locator(".say")).to_have_text("It wins 55 % of fresh answers against v1 (44 to 66 %).")
    expect(desk.get_by_role("img", name="It wins 55 %")).to_be_visible()
    screenshot(desk, "version-page")
    desk.get_by_role("link", name="Changed (2)").click()
    expect(desk.locator(".before-after > li")).to_have_count(2)
    desk.get_by_role("link", name="v1", exact=True).click()
    expect(desk.get_by_role("heading", name="Nobody knows yet")).to_be_visible()


def fresh_answers(share: float) -> Fresh:
    """36 prompts; the judge agrees with people on 69 of 78."""
    keys = [f"q{number}" for number in range(78)]
    judge = check(
        "a program that has learned from its users' ratings",
        Judged([(key, 0.85 if number < 69 else 0.15) for number, key in enumerate(keys)], [], 240),
        contrasts_of(keys),
    )
    assert judge
    shares = [min(0.98, max(0.02, share + (number % 5 - 2) / 12)) for number in range(36)]
    return estimate(judge, shares, [(f"new {n}", f"old answer {n}") for n in range(36)])


@pytest.mark.parametrize(("share", "sentence"), [(0.83, "Yes."), (0.53, "It is not known."), (0.2, "No.")])
def test_the_sentence_stands_above_all_else(
    page: Page, context: BrowserContext, live_site: LiveSite, agent: Agent, bob: User, share, sentence
) -> None:
    margins = {"difference": asdict(MARGINS), "pairs": 44, "prompts": 29}
    weighed = weigh(None, fresh_answers(share), margins, Terms(at_look(1), 0.0))
    evaluation = Evaluation.objects.get(version=make_loop(agent, 7).version)
    evaluation.verdict = weighed.verdict.decision
    evaluation.report |= {"reason": weighed.verdict.reason, **weighed.report}
    evaluation.save()
    sign_in(context, live_site, bob)
    page.goto(f"{live_site.url}/admin/rl/modelversion/{evaluation.version_id}/change/")
    row = page.locator(".field-is_it_better")
    expect(row).to_contain_text(sentence)
    expect(row).to_contain_text("agrees with people on 88% of 78 prompts (always taking the longer answer: 26%)")
    if share == 0.53:
        expect(row).to_contain_text("and people have to pick")
