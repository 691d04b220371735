from __future__ import annotations

import pytest
from django.contrib.auth.models import User
from django.test import Client

from rl.models import Agent, AuditEvent, Deployment
from tests.admin.records import make_version


@pytest.fixture
def staff(client: Client, bob: User) -> Client:
    client.force_login(bob)
    return client


@pytest.fixture
def row(agent: Agent) -> Deployment:
    return Deployment.objects.create(agent=agent, version=make_version(agent, "v1"), target="openai", url="http://x")


def test_the_number_of_answers_is_chosen_and_nothing_else(staff: Client, row: Deployment) -> None:
    page = f"/admin/rl/deployment/{row.pk}/change/"
    answer = staff.post(page, {"best_of": "4", "url": "http://elsewhere", "target": "ollama", "path": "/etc/passwd"})
    assert answer.status_code == 302
    row.refresh_from_db()
    assert (row.best_of, row.url, row.target, row.path) == (4, "http://x", "openai", "")
    assert any("Best of" in str(event.details) for event in AuditEvent.objects.filter(action="changed"))


@pytest.mark.parametrize("count", ["0", "9", "x", ""])
def test_it_has_limits(staff: Client, row: Deployment, count: str) -> None:
    assert staff.post(f"/admin/rl/deployment/{row.pk}/change/", {"best_of": count}).status_code == 200
    row.refresh_from_db()
    assert row.best_of == 1


def test_deployments_are_made_and_taken_away_by_commands(staff: Client, row: Deployment) -> None:
    assert staff.get("/admin/rl/deployment/add/").status_code == 403
    assert staff.post(f"/admin/rl/deployment/{row.pk}/delete/", {"post": "yes"}).status_code == 403
