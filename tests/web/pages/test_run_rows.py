"""The rows of a run as its page shows them."""

from __future__ import annotations

import json

import pytest
from django.test import Client

from rl.config.training_job import LEARNED_ROWS
from rl.models import Agent, Feedback
from tests.admin.records import make_run
from tests.conftest import make_trace

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("data_dir")]


@pytest.fixture
def staff(client: Client, bob) -> Client:
    client.force_login(bob)
    return client


def test_what_is_learned_stands_apart_from_what_is_read_and_leads_to_its_rating(staff: Client, agent: Agent) -> None:
    run, trace = make_run(agent), make_trace(agent)
    rating = Feedback.objects.create(
        agent=agent, trace=trace, kind=Feedback.Kind.CORRECTION, text="cards", rater="anna"
    )
    answer = {"name": "chosen", "tokens": 2, "is_cut": True, "pieces": [["<b>", False], ["cards", True]]}
    rows = [{"prompt": "user: <i>Which team?", "prompt_tokens": 7, "answers": [answer], "feedback": [rating.pk, 10**6]}]
    left_out = [{"reason": "the template refuses it", "question": "Hello?"}]
    run.directory.mkdir(parents=True)
    (run.directory / LEARNED_ROWS).write_text(json.dumps({"rows": rows, "left_out": left_out}))
    page = staff.get(f"/runs/{run.pk}/rows/").content.decode()
    assert '<span class="row-prompt">&lt;b&gt;</span><span class="row-learned">cards</span>' in page
    assert "user: &lt;i&gt;Which team?" in page
    assert f'<a href="/traces/{trace.pk}/">edited answer of anna</a>' in page
    assert "cut at the end" in page
    assert "the template refuses it" in page
    assert f'href="/runs/{run.pk}/rows/"' in staff.get(f"/runs/{run.pk}/").content.decode()


def test_a_run_that_has_not_prepared_its_rows_says_so(staff: Client, agent: Agent) -> None:
    assert "Nothing to show" in staff.get(f"/runs/{make_run(agent).pk}/rows/").content.decode()


def test_rows_are_for_staff_who_may_see_runs(client: Client, agent: Agent, charlie) -> None:
    client.force_login(charlie)
    assert client.get(f"/runs/{make_run(agent).pk}/rows/").status_code == 403
