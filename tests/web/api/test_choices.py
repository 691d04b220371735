"""GET /api/v1/feedback/choices/: what a widget offers to choose among."""

from __future__ import annotations

import uuid

import pytest
from django.test import Client

from rl.collect.feedback.tokens import Subject, sign
from rl.models import Agent, ApiKey, Trace
from tests.web.api.conftest import SHOP

pytestmark = pytest.mark.django_db
ADDRESS = "/api/v1/feedback/choices/"


@pytest.fixture(autouse=True)
def _has_a_set(agent: Agent) -> None:
    Agent.objects.filter(pk=agent.pk).update(answer_values=["cards", "<b>cash</b>"])


def ask(key: str, trace: object, **parameters: str):
    return Client(headers={"authorization": f"Bearer {key}", "origin": SHOP}).get(
        ADDRESS, {"trace": trace, **parameters}
    )


def test_a_page_that_may_rate_reads_the_values(publishable_key: str, trace: Trace) -> None:
    answer = ask(publishable_key, trace.pk)
    assert (answer.status_code, answer.json()) == (200, {"values": ["cards", "<b>cash</b>"]})
    assert answer["Access-Control-Allow-Origin"] == SHOP


def test_free_answers_have_none(publishable_key: str, trace: Trace) -> None:
    Agent.objects.update(answer_kind="free")
    assert ask(publishable_key, trace.pk).json() == {"values": []}


def test_of_an_answer_that_is_not_there_or_not_of_its_agent_it_tells_nothing(
    publishable_key: str, trace: Trace
) -> None:
    assert ask(publishable_key, uuid.uuid4()).status_code == 404
    ApiKey.objects.update(agent=Agent.objects.create(name="other"))
    assert ask(publishable_key, trace.pk).status_code == 404


@pytest.mark.parametrize("parameters", [{"trace": "x"}, {"more": "1"}, {"token": 201 * "x"}])
def test_parameters_are_checked(publishable_key: str, trace: Trace, parameters: dict[str, str]) -> None:
    assert ask(publishable_key, parameters.pop("trace", trace.pk), **parameters).status_code == 400


def test_a_key_that_needs_tokens_needs_one_here(agent: Agent, trace: Trace) -> None:
    key = ApiKey.create(name="shop", kind="publishable", allowed_origins=[SHOP], needs_tokens=True)[1]
    assert ask(key, trace.pk).status_code == 403
    assert ask(key, trace.pk, token=sign(Subject(trace.pk, agent.pk, 1))).status_code == 200
