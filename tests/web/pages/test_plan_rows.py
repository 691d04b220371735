from pathlib import Path

import pytest
from django.test import Client

from rl.models import Agent
from tests.dataset_builder.ratings import rated as rate_new

WISH = {"agent": "support-chat", "method": "kto", "base_model": "", "preset": ""}


@pytest.fixture
def rated(agent: Agent, data_dir: Path) -> Agent:
    Agent.objects.filter(pk=agent.pk).update(base_model="nobody/not-here")
    for number in range(12):
        for value in (0, 1):
            rate_new(agent, f"<b>question {number}</b>", f"answer {number} {value}", value)
    return agent


def test_the_rows_that_a_run_would_learn_are_shown_before_there_is_one(staff: Client, rated: Agent) -> None:
    shown = staff.get("/runs/plan.json", WISH).json()["shown"]
    page = staff.get(shown).content.decode()
    liked = next(trace for trace in rated.traces.filter(response__endswith="1") if f">{trace.response}<" in page)
    assert "&lt;b&gt;question 7&lt;/b&gt;" in page
    assert f'<span class="row-learned">{liked.response}</span>' in page
    assert "label good · by people" in page
    assert f'<a href="/traces/{liked.pk}/">rating of alice</a>' in page
    assert "The base model is not on this machine yet" in page
    assert 'href="/runs/new/?agent=support-chat&amp;method=kto' in page


def test_a_run_that_could_not_start_is_told_there(staff: Client, rated: Agent) -> None:
    page = staff.get(
        "/runs/plan/rows/", {**WISH, "method": "reward_model", "agent": Agent.objects.create(name="new").name}
    )
    assert page.status_code == 200
    assert "A run could not start: " in page.content.decode()


def test_rows_of_a_wrong_choice_are_refused_on_a_page(staff: Client, rated: Agent) -> None:
    answer = staff.get("/runs/plan/rows/", {**WISH, "method": "<i>sing"})
    assert answer.status_code == 400
    assert "unknown training method" in answer.content.decode()
    assert "<i>sing" not in answer.content.decode()
