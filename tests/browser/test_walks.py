"""Three newcomers find their way: who decides about a product, who builds on it, and who runs it. Each begins at the sign-in
page, knows no address, and must see what stands here."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from django.contrib.auth.models import User
from django.utils import timezone
from playwright.sync_api import Page, expect

from rl.models import Agent, Deployment, Evaluation, ModelVersion, Trace, TrainingRun
from tests.admin.records import make_loop, make_run, make_version
from tests.browser.conftest import LiveSite
from tests.serving.gateway.upstream_double import UpstreamDouble
from tests.waiting import until
from tests.web.pages.test_version_page import FRESH, sample

pytestmark = pytest.mark.process

Shot = Callable[[Page, str], Path]


def sign_in_by_hand(page: Page, site: LiveSite) -> None:
    page.goto(site.url)
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
    page.get_by_label("User name").fill("bob")
    page.get_by_label("Password").fill("bob-runs-this-place")
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("heading", name="Dashboard")).to_be_visible()


def go(page: Page, name: str) -> None:
    page.get_by_role("navigation", name="Main").get_by_role("link", name=name, exact=True).click()


@pytest.fixture
def judged(agent: Agent) -> ModelVersion:
    """v3, about which people have to decide."""
    first = make_version(agent, "v1")
    Deployment.objects.create(agent=agent, version=first, target="openai", url="http://127.0.0.1:9", alias="champion")
    evaluation = Evaluation.objects.get(version=make_loop(agent, 3).version)
    evaluation.verdict, evaluation.against = "undecided", first
    samples = [
        sample("How do I keep bread fresh?", "It is an art. " * 40, "Wrap it in a cloth."),
        sample("Milk?", "a", "b"),
    ]
    share = {"share": {"value": 0.55, "low": 0.44, "high": 0.66}}
    evaluation.report |= {
        "reason": "The difference could be chance.",
        "decided_by": "fresh",
        "evidence": [FRESH | share],
    }
    evaluation.report |= {"guards": {"rails": [], "samples": samples}}
    evaluation.save()
    ModelVersion.objects.filter(pk=evaluation.version_id).update(parent=first)
    return evaluation.version


def test_a_product_manager_learns_whether_it_got_better_and_what_people_saw(
    page: Page, live_site: LiveSite, bob: User, judged: ModelVersion, screenshot: Shot
) -> None:
    sign_in_by_hand(page, live_site)
    news = page.get_by_role("region", name="What needs somebody")
    expect(news).to_contain_text("v3 is perhaps better")
    screenshot(page, "walk-product-1-dashboard")
    news.get_by_role("link", name="v3 is perhaps better").click()
    expect(page.locator(".say")).to_contain_text("55 %")
    expect(page.get_by_role("heading", name="How sure is it?")).to_be_visible()
    screenshot(page, "walk-product-2-version")
    answers = page.locator(".before-after > li")
    expect(answers).to_have_count(2)
    expect(answers.first).to_contain_text("Wrap it in a cloth.")
    go(page, "Traces")
    expect(page.get_by_text("answer 3", exact=True)).to_be_visible()
    screenshot(page, "walk-product-3-traces")
    go(page, "Experiments")
    expect(page.get_by_role("link", name="experiment 3")).to_be_visible()


def test_a_developer_makes_a_key_sends_an_answer_rates_it_and_asks_the_gateway(
    page: Page, site: LiveSite, bob: User, agent: Agent, upstream: UpstreamDouble, screenshot: Shot
) -> None:
    Deployment.objects.create(agent=agent, target="openai", url=upstream.url, model_name="base", alias="champion")
    sign_in_by_hand(page, site)
    page.get_by_role("link", name="Create an API key").click()
    page.get_by_label("Name").fill("my server")
    page.get_by_label("Kind").select_option("secret")
    for box in page.locator("input[name=scopes]").all():
        box.check()
    page.get_by_role("button", name="Save", exact=True).click()
    key = page.locator("code.new-key").inner_text()
    assert re.fullmatch(r"sk_[\w-]{30,}", key)
    screenshot(page, "walk-developer-1-key")
    client = httpx.Client(base_url=site.url, headers={"Authorization": f"Bearer {key}"}, timeout=60)
    answer = {"agent": agent.name, "prompt": "Where is my parcel?", "response": "On its way.", "external_id": "a1"}
    assert client.post("/api/v1/traces/", json=answer).status_code == 201
    rating: dict[str, Any] = {"trace": "a1", "rater": "anna", "scale": "thumb", "value": 1}
    assert client.post("/api/v1/feedback/", json=rating).status_code == 201
    asked = {"model": agent.name, "messages": [{"role": "user", "content": "And how long will that take?"}]}
    assert client.post("/v1/chat/completions", json=asked).json()["choices"][0]["message"]["content"]
    until(lambda: Trace.objects.count() == 2)
    page.goto(site.url)
    go(page, "Traces")
    expect(page.get_by_text("On its way.")).to_be_visible()
    expect(page.get_by_text("And how long will that take?")).to_be_visible()
    screenshot(page, "walk-developer-2-traces")
    page.goto(f"{site.url}/api/docs/")
    expect(page.get_by_text("/api/v1/traces/").first).to_be_visible()
    screenshot(page, "walk-developer-3-api")


def test_an_operator_sees_what_failed_and_why_and_has_it_go_on(
    page: Page, live_site: LiveSite, bob: User, agent: Agent, screenshot: Shot
) -> None:
    reason = "no space left on the disk: 2 GB are needed"
    run = make_run(agent, TrainingRun.State.FAILED, attempt=1, error=reason, finished_at=timezone.now())
    sign_in_by_hand(page, live_site)
    needs = page.get_by_role("region", name="What needs somebody")
    expect(needs).to_contain_text(reason)
    screenshot(page, "walk-operator-1-dashboard")
    needs.get_by_role("link", name=f"Run {run.pk}").click()
    expect(page.get_by_role("heading", name="Why it failed")).to_be_visible()
    expect(page.get_by_text(reason).first).to_be_visible()
    screenshot(page, "walk-operator-2-run")
    page.get_by_role("button", name="Resume").click()
    expect(page.locator("#run-state")).to_have_text("queued")
    go(page, "Runs")
    expect(page.get_by_role("row", name=re.compile(f"dpo {run.pk}"))).to_contain_text("queued")
    go(page, "Admin")
    page.get_by_role("link", name="Audit events").click()
    expect(page.get_by_text(f"run {run.pk}").first).to_be_visible()
    screenshot(page, "walk-operator-3-audit")
