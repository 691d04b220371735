"""The button on the agent's page that goes back to the version before."""

from __future__ import annotations

from pathlib import Path

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client

from rl.models import Agent, Deployment
from tests.serving.exported import exported


@pytest.fixture
def staff(client: Client, bob: User) -> Client:
    client.force_login(bob)
    return client


@pytest.fixture
def two_versions(agent: Agent, data_dir: Path) -> Agent:
    for name in ("v15", "v25"):
        Deployment.promote(exported(agent, name, data_dir).version)
    return agent


def address_of(agent: Agent, page: str) -> str:
    return f"/admin/rl/agent/{agent.pk}/{page}/"


def in_use(agent: Agent) -> str:
    return getattr(Deployment.champion(agent), "name", "base")


def test_one_click_goes_back_and_another_returns(staff: Client, two_versions: Agent):
    assert 'form="roll-back"' in staff.get(address_of(two_versions, "change")).content.decode()
    response = staff.post(address_of(two_versions, "roll_back"), follow=True)
    assert "In use now: v15." in response.content.decode()
    assert in_use(two_versions) == "v15"
    staff.post(address_of(two_versions, "roll_back"))
    assert in_use(two_versions) == "v25"


def test_an_agent_without_a_version_has_no_button(staff: Client, agent: Agent, data_dir: Path):
    assert 'form="roll-back"' not in staff.get(address_of(agent, "change")).content.decode()
    response = staff.post(address_of(agent, "roll_back"), follow=True)
    assert "Nothing was rolled back: support-chat has no version to go back to" in response.content.decode()


def test_only_a_post_of_somebody_with_the_permission_does_it(client: Client, charlie: User, two_versions: Agent):
    charlie.is_staff = True
    charlie.save()
    charlie.user_permissions.add(Permission.objects.get(codename="view_agent"))
    client.force_login(charlie)
    assert 'form="roll-back"' not in client.get(address_of(two_versions, "change")).content.decode()
    assert client.post(address_of(two_versions, "roll_back")).status_code == 403
    charlie.user_permissions.add(Permission.objects.get(codename="change_deployment"))
    assert client.get(address_of(two_versions, "roll_back")).status_code == 405
    assert in_use(two_versions) == "v25"
    assert client.post(address_of(two_versions, "roll_back")).status_code == 302
    assert in_use(two_versions) == "v15"
