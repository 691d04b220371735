from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.template.loader import render_to_string
from django.test import Client

from rl.models import Agent, Deployment, Evaluation, ModelVersion
from rl.web.before_after import newest_answers
from tests.admin.records import make_evaluation, make_run, make_training_set, make_version

PAGE = "/try/support-chat/before-and-after/"
SAMPLES = [
    {
        "prompt": "Who are you?",
        "new": {"answer": "", "errors": ["empty"]},
        "base": {"answer": "Nobody", "errors": []},
        "current": {"answer": "x", "errors": []},
    },
    {
        "prompt": "Why is the sky blue?",
        "new": {"answer": "Air scatters blue light.", "errors": []},
        "base": {"answer": "The sky is", "errors": []},
    },
]
SKY = {"prompt": "Why is the sky blue?", "before": "The sky is", "after": "Air scatters blue light."}
NOBODY = {"prompt": "Who are you?", "before": "Nobody", "after": ""}
REPORT = {"guards": {"samples": SAMPLES}}


def measured(agent: Agent, report: Any, name: str = "v40", number: int = 1) -> Evaluation:
    row = make_evaluation(make_version(agent, name), make_training_set(agent, number))
    Evaluation.objects.filter(pk=row.pk).update(report=report)
    row.refresh_from_db()
    return row


def use(version: ModelVersion) -> None:
    Deployment.objects.create(agent=version.agent, version=version, alias="champion")


def test_the_answers_come_in_an_order_that_has_nothing_to_do_with_their_errors(agent: Agent) -> None:
    evaluation = measured(agent, REPORT)
    compared = newest_answers(agent)
    assert compared is not None
    assert compared.evaluation == evaluation
    assert compared.answers == [SKY, NOBODY]
    backwards = measured(agent, {"guards": {"samples": SAMPLES[::-1]}}, "v41", 2)
    assert backwards.before_and_after == [SKY, NOBODY]


@pytest.mark.parametrize(
    "report",
    [
        {},
        [],
        {"guards": {"skipped": "no prompts are held out"}},
        {"guards": None},
        {"guards": {"samples": [{"prompt": "of an earlier release", "answer": "b", "errors": []}]}},
    ],
)
def test_a_report_without_answers_compares_nothing(agent: Agent, report: Any) -> None:
    measured(agent, report)
    assert newest_answers(agent) is None


@pytest.mark.database
def test_the_version_in_use_comes_before_newer_ones(agent: Agent) -> None:
    first = measured(agent, REPORT, "v1", 1)
    second = measured(agent, REPORT, "v2", 2)
    assert (compared := newest_answers(agent)) is not None
    assert (compared.evaluation, compared.is_in_use) == (second, False)
    use(first.version)
    assert (compared := newest_answers(agent)) is not None
    assert (compared.evaluation, compared.is_in_use) == (first, True)
    assert (compared := newest_answers(agent, "V2")) is not None
    assert compared.evaluation == second
    assert newest_answers(agent, "v3") is None


# --- the page ----------------------------------------------------------------------------------------------------------


def test_it_takes_the_permission_to_see_evaluations(client: Client, alice, agent: Agent) -> None:
    assert client.get(PAGE)["Location"] == f"/login/?next={PAGE}"
    client.force_login(alice)
    assert client.get(PAGE).status_code == 403
    alice.user_permissions.add(Permission.objects.get(codename="view_evaluation"))
    client.force_login(User.objects.get(pk=alice.pk))
    assert client.get(PAGE).status_code == 200


def test_both_answers_stand_side_by_side_as_escaped_text(client: Client, bob, agent: Agent) -> None:
    evil = {
        "prompt": "<b>why</b>",
        "base": {"answer": "<script>alert(1)</script>", "errors": []},
        "new": {"answer": "<img src=x>", "errors": []},
    }
    use(measured(agent, {"guards": {"samples": [evil, *SAMPLES]}}).version)
    client.force_login(bob)
    text = client.get(PAGE).content.decode()
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text
    assert not [markup for markup in ("<b>why", "<script>alert", "<img src=x") if markup in text]
    assert "Air scatters blue light." in text
    assert "in use" in text
    assert "(It said nothing.)" in text


@pytest.mark.database
def test_without_answers_it_says_where_they_come_from(client: Client, bob, agent: Agent) -> None:
    client.force_login(bob)
    assert "No version of support-chat was measured" in client.get(PAGE).content.decode()
    assert "No evaluation of version v9" in client.get(PAGE, {"version": "v9"}).content.decode()


def test_the_pages_of_the_run_and_of_the_agent_lead_to_it(client: Client, bob, agent: Agent) -> None:
    version = measured(agent, REPORT).version
    run = make_run(agent, version=version)
    client.force_login(bob)
    assert f'href="{PAGE}?version=v40"' in client.get(f"/runs/{run.pk}/").content.decode()
    for address in ("/", "/try/support-chat/"):
        assert f'href="{PAGE}"' in client.get(address).content.decode()


def test_the_part_takes_any_list() -> None:
    text = render_to_string("rl/_before_after.html", {"answers": [SKY]})
    assert "Air scatters blue light." in text
    assert "the base model" in text
