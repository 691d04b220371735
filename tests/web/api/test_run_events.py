"""A run is followed: what changes comes as it changes, and the stream ends with the run."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from rl.models import Agent, MetricPoint, TrainingRun
from tests.web.api.conftest import PROBLEM, Caller, key_for
from tests.web.front.in_thread import front_in_thread

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def run(agent: Agent) -> TrainingRun:
    return TrainingRun.objects.create(agent=agent, method="dpo", state="running", step=1, total_steps=9)


@pytest.fixture
def site(run: TrainingRun, data_dir: Path, settings) -> Iterator[str]:
    with front_in_thread(settings) as url:
        yield url


def url(run: TrainingRun) -> str:
    return f"/api/v1/runs/{run.pk}/events/"


def told(lines: Iterator[str]) -> Iterator[dict[str, Any]]:
    return (json.loads(line.removeprefix("data: ")) for line in lines if line.startswith("data: "))


@pytest.mark.process
@pytest.mark.database
def test_each_change_comes_until_the_run_is_over(site: str, run: TrainingRun):
    headers = {"Authorization": f"Bearer {key_for(run.agent)}", "Accept": "text/event-stream"}
    with httpx.stream("GET", site + url(run), headers=headers, timeout=60) as stream:
        assert stream.headers["content-type"] == "text/event-stream"
        events = told(stream.iter_lines())
        first = next(events)
        assert (first["state"], first["step"], first["metrics"]) == ("running", 1, {})
        MetricPoint.objects.create(run=run, step=2, values={"loss": 0.5})
        TrainingRun.objects.update(step=2)
        assert [event["metrics"] for event in (next(events),)] == [{"loss": 0.5}]
        TrainingRun.objects.update(state="succeeded")
        assert [event["state"] for event in events][-1] == "succeeded"


@pytest.mark.process
def test_a_stream_ends_with_a_run_that_is_deleted(site: str, run: TrainingRun):
    headers = {"Authorization": f"Bearer {key_for(run.agent)}"}
    with httpx.stream("GET", site + url(run), headers=headers, timeout=60) as stream:
        events = told(stream.iter_lines())
        assert next(events)["id"] == run.pk
        run.delete()
        assert list(events) == []


def test_a_run_that_is_over_is_told_once(run: TrainingRun):
    TrainingRun.objects.update(state="failed", error="no luck")
    answer = Caller(key_for(run.agent)).get(url(run))
    assert [event["error"] for event in told(iter(answer.content.decode().split("\n")))] == ["no luck"]


def test_a_run_of_another_agent_is_not_there(run: TrainingRun):
    refused = Caller(key_for(Agent.objects.create(name="billing"))).client.get(
        url(run), headers={"accept": "text/event-stream"}
    )
    assert (refused.status_code, refused["content-type"]) == (404, PROBLEM)
