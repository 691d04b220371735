"""The API does what its OpenAPI document says, for valid and for broken requests alike; schemathesis makes them up.

SCHEMATHESIS_EXAMPLES asks for more than the few random ones for each call that a test run has time for.
"""

import json
import os
from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pytest
import schemathesis
from django.core.cache import cache
from django.core.handlers.wsgi import WSGIHandler
from django.core.signals import request_finished, request_started
from django.db import close_old_connections
from drf_spectacular.generators import SchemaGenerator
from hypothesis import settings

from rl.collect.feedback.write import rate
from rl.models import Agent, Feedback, ModelVersion, TrainingRun
from tests.conftest import make_trace

EXAMPLES = int(os.environ.get("SCHEMATHESIS_EXAMPLES", "3"))
AGENT, ENTRY, NUMBER = "support-chat", "e00001", 1
TRACE, OTHER = "018f0000-0000-7000-8000-000000000001", "018f0000-0000-7000-8000-000000000002"
REFUSED = [400, 401, 403, 404, 409, 413, 415, 429]
pytestmark = [pytest.mark.database, pytest.mark.django_db, pytest.mark.slow]


def often(dictionary: str) -> dict[str, Any]:
    """Random values alone would hardly ever name what is there."""
    return {"dictionary": dictionary, "probability": 0.7}


CONFIG = schemathesis.Config.from_dict(
    {
        "seed": 20261122,
        "generation": {"max-examples": EXAMPLES, "deterministic": True, "with-security-parameters": False},
        # No JSON schema says what all of them mean together, such as how many ratings a training needs.
        "checks": {"positive_data_acceptance": {"enabled": False}},
        "dictionaries": {
            "agents": {"values": [AGENT]},
            "traces": {"values": [TRACE, OTHER]},
            "numbers": {"values": [NUMBER]},
            "entries": {"values": [ENTRY]},
        },
        "parameters": {
            **{name: often("agents") for name in ("path.agent", "query.agent", "query.agentType", "body.agent")},
            **{name: often("traces") for name in ("query.trace", "body.trace", "body.other_trace")},
            "body.agentType": often("agents"),
            "body.entry_id": often("entries"),
        },
        "operations": [
            # A list is answered with 207, and what is wrong with one of its items by that item's own status.
            {
                "include-operation-id": ["store_traces", "store_decisions", "send_feedback"],
                "checks": {"negative_data_rejection": {"expected-statuses": [*REFUSED, 207]}},
            },
            # Each of its items is what store_decision takes, and that is covered.
            {"include-operation-id": "store_decisions", "phases": {"coverage": {"enabled": False}}},
            {"include-path-regex": "/(traces|decisions)/", "parameters": {"path.id": often("traces")}},
            {"include-path-regex": "/(feedback|runs)/", "parameters": {"path.id": often("numbers")}},
        ],
    }
)
SCHEMA = schemathesis.openapi.from_dict(SchemaGenerator().get_schema(request=None, public=True), config=CONFIG)
SCHEMA.app = WSGIHandler()


@SCHEMA.hook
def filter_case(context: schemathesis.HookContext, case: schemathesis.Case) -> bool:
    """Whoever names another host speaks to another site; Django refuses that before it comes to the API."""
    return "host" not in {name.lower() for name in case.headers or {}}


@schemathesis.serializer("application/x-ndjson")
def lines(context: schemathesis.SerializationContext, value: Any) -> bytes:
    return "\n".join(json.dumps(one) for one in (value if isinstance(value, list) else [value])).encode()


@pytest.fixture
def authorization(secret_key: str) -> dict[str, str]:
    """Of a key that may do everything, where there is something to find under the names of the dictionaries."""
    agent = Agent.objects.create(name=AGENT, base_model="tiny")
    trace = make_trace(agent, pk=UUID(TRACE), external_id=ENTRY, action={"n": 1})
    make_trace(agent, response="other", pk=OTHER)
    rated = rate(trace, rater="anna", scale="thumb", value=1, source="api")
    Feedback.objects.filter(pk=rated.event.pk).update(id=NUMBER)
    version = ModelVersion.objects.create(agent=agent, name="v1", base_model="tiny", feedback_count=1)
    TrainingRun.objects.create(pk=NUMBER, agent=agent, method="dpo", state=TrainingRun.State.SUCCEEDED, version=version)
    return {"Authorization": f"Bearer {secret_key}"}


@pytest.fixture(autouse=True)
def _one_connection() -> Iterator[None]:
    """The server would close that of the test's transaction after each request."""
    for signal in (request_started, request_finished):
        signal.disconnect(close_old_connections)
    yield
    for signal in (request_started, request_finished):
        signal.connect(close_old_connections)


@SCHEMA.parametrize()
@settings(max_examples=20)
def test_every_answer_is_documented(case: schemathesis.Case, authorization: dict[str, str]):
    cache.clear()
    case.call_and_validate(headers=authorization)
