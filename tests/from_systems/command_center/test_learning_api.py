import pytest

from rl.models import Agent, Trace, TrainingRun
from tests.from_systems.command_center.pages import Page

pytestmark = pytest.mark.django_db
STATUS, HISTORY = "/api/layer2/rl-status/", "/api/layer2/rl-history/"


@pytest.fixture
def selector(db) -> Agent:
    agent = Agent.objects.create(name="selector")
    names = {"external_id": "e1", "prompt_key": "q", "prompt": [{"role": "user", "content": "q"}], "response": "x"}
    Trace.objects.create(agent=agent, details={"scenario": "kpi", "fixture": "live"}, **names)
    return agent


def test_the_status_is_the_learners(page: Page, selector: Agent):
    answer = page.get(STATUS)
    assert (answer.status_code, answer.json()["agent"], answer.json()["buffer_size"]) == (200, "selector", 0)
    assert answer["Access-Control-Allow-Origin"]


@pytest.mark.database
def test_the_history_is_of_runs_the_newest_first(page: Page, selector: Agent):
    runs = [TrainingRun.objects.create(agent=selector, method="dpo", state="failed") for _ in range(2)]
    document = page.get(f"{HISTORY}?limit=1").json()
    assert (document["total"], [run["run"] for run in document["history"]]) == (2, [runs[1].pk])
    assert page.get(f"{HISTORY}?limit=501").status_code == 400
    assert page.get(f"{HISTORY}?agent=nobody").status_code == 400


def test_strangers_are_refused(selector: Agent):
    assert [Page("http://evil.example").get(path).status_code for path in (STATUS, HISTORY)] == [401, 401]
