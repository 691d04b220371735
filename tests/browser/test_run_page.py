"""The page of a run that goes on while somebody looks."""

import json
import re
import time
from datetime import timedelta
from pathlib import Path

import pytest
from django.utils import timezone
from playwright.sync_api import Page, expect

from rl.collect.feedback.write import rate
from rl.models import Agent, MetricPoint, TrainingRun
from tests.admin.records import make_loop, make_run
from tests.browser.conftest import LiveSite
from tests.conftest import make_trace

pytestmark = pytest.mark.process


def train(run: TrainingRun, first: int, last: int) -> None:
    MetricPoint.objects.bulk_create(
        [
            MetricPoint(run=run, step=step, values={"loss": 0.7 - step * 0.004, "accuracy": min(1, 0.5 + step * 0.005)})
            for step in range(first, last + 1)
        ]
    )
    TrainingRun.objects.filter(pk=run.pk).update(step=last, stage="training")
    run.directory.mkdir(parents=True, exist_ok=True)
    with (run.directory / "log.txt").open("a") as log:
        log.writelines(f"step {step} of 100 <b>\n" for step in range(first, last + 1))
    now = time.time()
    pace = {"first_step": 0, "first_at": now - 6 * last, "step": last, "total": 100, "at": now}
    (run.directory / "stages.json").write_text(json.dumps({"stages": ["preparing data", "training"], "pace": pace}))


@pytest.fixture
def run(live_site: LiveSite, agent: Agent, data_dir: Path) -> TrainingRun:
    run = make_run(agent, TrainingRun.State.RUNNING, attempt=1, total_steps=100)
    TrainingRun.objects.filter(pk=run.pk).update(started_at=timezone.now() - timedelta(minutes=6))
    train(run, 1, 40)
    return run


def open_run(page: Page, live_site: LiveSite, run: TrainingRun) -> None:
    page.goto(f"{live_site.url}/runs/{run.pk}/")


def test_the_chart_grows_while_the_run_goes_on(page: Page, staff, live_site, run: TrainingRun, screenshot) -> None:
    open_run(page, live_site, run)
    expect(page.locator("#run-steps")).to_have_text("40 of 100 steps")
    expect(page.locator("#run-chart canvas")).to_be_visible()
    page.get_by_text("The numbers").click()
    rows = page.locator("#run-table tbody tr")
    expect(rows).to_have_count(40)
    expect(page.locator("#run-table thead th")).to_have_text(["step", "accuracy", "loss"])
    train(run, 41, 60)
    expect(rows).to_have_count(60)
    expect(page.locator("#run-steps")).to_have_text("60 of 100 steps")
    expect(page.locator("#run-line [aria-current]")).to_have_text(re.compile("training"))
    expect(page.locator("#run-eta")).to_have_text("about 4 min left of training")
    expect(page.locator("#run-log")).to_contain_text("step 60 of 100 <b>")
    page.get_by_text("The numbers").click()
    screenshot(page, "run-page")


def test_right_answers_are_drawn_beside_the_loss(page: Page, staff, live_site, run: TrainingRun) -> None:
    for point in MetricPoint.objects.filter(run=run):
        MetricPoint.objects.filter(pk=point.pk).update(
            values={"loss": 0.5, **({} if point.step % 10 else {"right": point.step / 40})}
        )
    open_run(page, live_site, run)
    expect(page.locator("#run-chart .u-legend")).to_contain_text("right")
    expect(page.locator("#run-chart .u-legend")).not_to_contain_text("accuracy")
    page.get_by_text("The numbers").click()
    expect(page.locator("#run-table thead th")).to_have_text(["step", "loss", "right"])


def test_a_finished_run_shows_its_version_by_itself(page: Page, staff, live_site, run: TrainingRun, agent) -> None:
    open_run(page, live_site, run)
    expect(page.get_by_role("button", name="Cancel this run")).to_be_visible()
    made = make_loop(agent, 7)
    version, made.version = made.version, None
    made.save()
    run.version, run.state = version, TrainingRun.State.SUCCEEDED
    run.save()
    expect(page.locator("#run-state")).to_have_text("succeeded")
    expect(page.get_by_role("link", name="v7", exact=True)).to_be_visible()
    expect(page.get_by_role("button", name="Cancel this run")).not_to_be_visible()


def test_a_finished_run_is_asked_for_once(page: Page, staff, live_site, run: TrainingRun) -> None:
    TrainingRun.objects.filter(pk=run.pk).update(state=TrainingRun.State.SUCCEEDED)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url) if "progress.json" in request.url else None)
    open_run(page, live_site, run)
    expect(page.locator("#run-chart canvas")).to_be_visible()
    page.wait_for_timeout(2500)
    assert len(asked) == 1


def test_a_resumed_run_is_drawn_again_from_the_start(page: Page, staff, live_site, run: TrainingRun) -> None:
    open_run(page, live_site, run)
    page.get_by_text("The numbers").click()
    expect(page.locator("#run-table tbody tr").first).to_contain_text("40")
    MetricPoint.objects.filter(run=run, step__gt=30).delete()
    TrainingRun.objects.filter(pk=run.pk).update(attempt=2, step=30)
    expect(page.locator("#run-table tbody tr")).to_have_count(30)


def test_it_is_cancelled_by_its_button(page: Page, staff, live_site, run: TrainingRun) -> None:
    open_run(page, live_site, run)
    page.get_by_role("button", name="Cancel this run").click()
    expect(page.get_by_text("It stops after its current step")).to_be_visible()
    expect(page.get_by_role("button", name="Stopping…")).to_be_disabled()
    run.refresh_from_db()
    assert run.cancel_requested


def test_a_failed_run_tells_why_and_is_resumed_by_its_button(page: Page, staff, live_site, run: TrainingRun) -> None:
    fields = {"state": TrainingRun.State.FAILED, "error": "OutOfMemoryError: <b>9 GB</b> are missing"}
    TrainingRun.objects.filter(pk=run.pk).update(**fields)
    open_run(page, live_site, run)
    expect(page.get_by_role("heading", name="Why it failed")).to_be_visible()
    expect(page.locator("#run-error")).to_contain_text("<b>9 GB</b> are missing")
    page.get_by_role("button", name="Resume").click()
    expect(page.get_by_text(f"Run {run.pk} is queued; a running qcluster starts it.")).to_be_visible()
    expect(page.locator("#run-error")).not_to_be_visible()
    run.refresh_from_db()
    assert run.claim()
    expect(page.locator("#run-state")).to_have_text("running")
    expect(page.get_by_role("button", name="Cancel this run")).to_be_visible()


def test_an_agent_is_retrained_by_its_button(page: Page, staff, live_site, agent: Agent) -> None:
    page.goto(f"{live_site.url}/admin/rl/agent/{agent.pk}/change/")
    page.get_by_label("Description").fill("not saved")
    page.get_by_role("button", name="Retrain now").click()
    expect(page.get_by_text("is queued; a running qcluster starts it.")).to_be_visible()
    agent.refresh_from_db()
    assert (agent.runs.count(), agent.description) == (1, "")


def test_the_pages_of_the_admin_have_nothing_that_the_policy_blocks(page: Page, staff, live_site, run, agent) -> None:
    make_loop(agent)
    version = agent.versions.get()
    forms = ["rl/agent/add/", f"rl/agent/{agent.pk}/change/", "rl/experiment/add/", "rl/apikey/add/"]
    for address in ("", "rl/trace/", "rl/trainingrun/", f"rl/modelversion/{version.pk}/change/", *forms):
        page.goto(f"{live_site.url}/admin/{address}")
        expect(page.get_by_role("link", name="Dashboard")).to_be_visible()


def test_runs_are_found_compared_and_started(
    page: Page, staff, live_site, run: TrainingRun, agent, screenshot, console
) -> None:
    console.allow("status of 400")
    TrainingRun.objects.filter(pk=run.pk).update(state=TrainingRun.State.SUCCEEDED, started_by="bob")
    other = make_loop(agent)
    other.config = {**other.config, "epochs": 1.0}
    other.save()
    train(other, 1, 9)
    for number in range(12):
        for value in (0, 1):
            rate(
                make_trace(agent, f"q {number}", f"a {number} {value}"),
                rater="a",
                scale="thumb",
                value=value,
                source="t",
            )
    page.goto(f"{live_site.url}/runs/")
    expect(page.locator(".spark")).to_have_count(2)
    screenshot(page, "runs")
    for pk in (run.pk, other.pk):
        page.get_by_label(f"Compare run {pk}").check()
    page.get_by_role("button", name="Compare those picked").click()
    expect(page.locator("#compare-chart canvas")).to_be_visible()
    expect(page.locator("#compare-chart .u-legend")).to_contain_text(f"run {run.pk}")
    expect(page.get_by_role("row", name="epochs 1.0 3.0")).to_be_visible()
    page.get_by_label("Measured").select_option("accuracy")
    expect(page.locator(f"[data-run='{run.pk}'] [data-last]")).to_have_text("0.7")
    page.goto(f"{live_site.url}/runs/")
    page.get_by_role("link", name="New run").click()
    expect(page.locator("#plan")).to_contain_text("ratings read")
    rows = page.locator(".plan-figures b").first.text_content()
    page.get_by_label("Learns from").select_option("kto")
    expect(page.locator(".plan-figures b").first).not_to_have_text(rows or "")
    page.get_by_role("button", name="Start this run").click()
    expect(page.get_by_text("a running qcluster starts it")).to_be_visible()
    page.goto(f"{live_site.url}/runs/new/")
    expect(page.get_by_role("link", name="A run of this agent is at work already")).to_be_visible()
    page.get_by_role("button", name="Start this run").click()
    expect(page.get_by_role("alert")).to_contain_text("in progress")
