"""axe on every page of the site and of the admin, light and dark, wide and as narrow as a phone."""

from typing import Literal

import pytest
from django.contrib import admin
from django.contrib.auth.models import User
from playwright.sync_api import BrowserContext, Page

from rl.admin.markup import ReadOnlyAdmin
from rl.models import Agent, Evaluation, Experiment, Feedback, ModelVersion, RatingQueue, Trace, TrainingRun
from tests.admin.records import make_loop
from tests.browser.axe import findings
from tests.browser.conftest import Console, LiveSite, sign_in

pytestmark = pytest.mark.process


Scheme, Ready = Literal["light", "dark"], Literal["load", "networkidle"]
Looks = list[tuple[Scheme, int]]
LOOKS: Looks = [("light", 1280), ("dark", 375)]
COLOURS_HAVE_CHANGED = "Promise.allSettled(document.getAnimations().map(animation => animation.finished))"


@pytest.fixture
def site(page: Page, context: BrowserContext, live_site: LiveSite, agent: Agent, bob: User, console: Console) -> str:
    """Signed in, with a row in every table."""
    console.allow("Applying inline style")  # axe measures with some
    make_loop(agent)
    sign_in(context, live_site, bob)
    return live_site.url


def look_at(page: Page, site: str, paths: list[str], looks: Looks = LOOKS, ready: Ready = "networkidle") -> list[str]:
    problems = []
    for path in paths:
        page.goto(f"{site}{path}", wait_until=ready)
        page.locator("main").first.wait_for(state="attached")  # a script draws the pages of the API's documents
        page.locator("h1").first.wait_for(state="attached")
        for scheme, width in looks:
            page.emulate_media(color_scheme=scheme)
            page.set_viewport_size({"width": width, "height": 800})
            page.evaluate(COLOURS_HAVE_CHANGED)
            problems += [f"{path} {scheme} {width}: {finding}" for finding in findings(page)]
            if page.evaluate("document.documentElement.scrollWidth") > width:
                problems.append(f"{path} {scheme} {width}: wider than the screen")
    return problems


@pytest.mark.slow
def test_the_pages_of_the_site_have_no_finding(page: Page, site: str, agent: Agent) -> None:
    experiment, trace = Experiment.objects.get(), Trace.objects.exclude(model_version=None).get()
    paths = ["/", "/try/", f"/try/{agent.name}/", "/rate/", f"/rate/{agent.name}/", "/traces/", f"/traces/{trace.pk}/"]
    paths += [f"/traces/of/{agent.name}/", "/experiments/", f"/experiments/{experiment.pk}/", "/api/docs/"]
    assert look_at(page, site, paths) == []


@pytest.mark.slow
def test_the_pages_of_runs_versions_and_queues_have_no_finding(
    page: Page, site: str, agent: Agent, console: Console
) -> None:
    console.allow("the server responded with a status of 400")  # so few rows make no plan of a run
    run, queue, version = TrainingRun.objects.get(), RatingQueue.objects.get(), ModelVersion.objects.get()
    paths = [
        "/agents/",
        f"/agents/{agent.name}/",
        f"/versions/{agent.name}/{version.name}/",
        "/runs/",
        f"/runs/{run.pk}/",
    ]
    paths += ["/runs/new/", f"/runs/compare/?run={run.pk}", f"/experiments/versions/{agent.name}/", "/rate/held-back/"]
    paths += [f"/rate/{agent.name}/{queue.name}/{part}" for part in ("", "settings/", "raters/")]
    assert look_at(page, site, paths) == []


@pytest.mark.slow
def test_the_admin_has_no_finding(page: Page, site: str) -> None:
    """Its scripts load nothing later. The lists that nobody edits are one template: what is light and wide in one is so in
    all, but each has columns of its own, which must fit into a phone."""
    of_ours = {model: box for model, box in admin.site._registry.items() if model._meta.app_label == "rl"}
    plain = [model for model, box in of_ours.items() if isinstance(box, ReadOnlyAdmin) and not box.actions]
    lists = {model: f"/admin/rl/{model._meta.model_name}/" for model in of_ours}
    records = [
        f"{lists[model]}{model._default_manager.first().pk}/change/"
        for model in (Agent, TrainingRun, ModelVersion, Evaluation, Feedback)
    ]
    others = [path for model, path in lists.items() if model not in plain[1:]]
    assert look_at(page, site, ["/admin/", *others, *records], ready="load") == []
    assert look_at(page, site, [lists[model] for model in plain[1:]], LOOKS[-1:], ready="load") == []
