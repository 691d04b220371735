"""Bodies that nobody thought of: no answer may be an error of the server."""

import json

import pytest
from django.core.cache import cache
from hypothesis import given, settings
from hypothesis import strategies as st

from rl.models import Agent, Trace
from tests.conftest import make_trace
from tests.web.api.conftest import Caller

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(max_size=20)
    | st.sampled_from(["", "rating", "2026-01-01", "9999-12-31T23:59:59-12:00", "0001-01-01T00:00:00+14:00", -1, 2**63])
)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4)
)
DECISION = {
    "state": {"n": 1},
    "action": {"n": 2},
    "itemId": "i",
    "opusId": "o",
    "userId": "u",
    "modelVersion": "v",
    "confidence": 0.5,
    "reasoning": "r",
    "alternativeActions": [],
    "nextState": {},
    "reward": 0.5,
    "rewardComponents": {"a": 1},
    "userFeedback": "CONFIRMED",
    "userCorrection": None,
    "feedbackAt": "2026-01-01T00:00:00Z",
    "outcomeMetrics": {"m": True},
    "outcomeObservedAt": None,
    "createdAt": "2026-01-01T00:00:00Z",
    "isTrainingData": True,
}
pytestmark = pytest.mark.django_db


def valid_bodies(agent: Agent) -> dict[str, dict]:
    trace, other = make_trace(agent, external_id="e1"), make_trace(agent, response="other")
    decided = make_trace(agent, response="1", action=1)
    who = {"trace": str(trace.pk), "rater": "anna"}
    extras = {"tags": ["a"], "notes": "n", "rated_at": "2026-01-01T00:00:00Z"}
    return {
        "/api/v1/traces/": {
            "agent": agent.name,
            "prompt": [{"role": "user", "content": "q"}],
            "response": "a",
            "external_id": "x",
            "model_version": None,
            "state": 1,
            "action": 2,
            "cost": 0.1,
            "occurred_at": "2026-01-01T00:00:00Z",
            "details": {},
            "tool_calls": [],
            "tokens_in": 1,
        },
        "/api/v1/feedback/": {**who, **extras, "kind": "rating", "scale": "thumb", "value": 1},
        "/api/v1/feedback/?comparison": {**who, "kind": "comparison", "other_trace": str(other.pk), "choice": "tie"},
        "/api/v1/feedback/?correction": {**who, "kind": "correction", "text": "better"},
        "/api/v1/feedback/?outcome": {**who, "kind": "outcome", "metric": "m", "value": 1},
        "/api/v1/feedback/retract/": who,
        "/api/v1/ratings/": {"entry_id": "e1", "device_id": "d", "rating": "up", **extras, "agent": agent.name},
        "/api/v1/ratings/sync/": {"ratings": {"e1": {"rating": "up", **extras}}, "device_id": "d"},
        "/api/decisions/": {**DECISION, "agentType": agent.name, "id": "d1"},
        f"/api/decisions/{decided.pk}/feedback/": {
            "userFeedback": "CORRECTED",
            "userCorrection": {},
            "feedbackAt": None,
            "userId": "u",
        },
        f"/api/decisions/{decided.pk}/outcomes/": {"outcomeMetrics": {"m": 1}, "outcomeObservedAt": None},
    }


@settings(max_examples=50)
@given(data=st.data())
def test_no_body_breaks_the_server(server: Caller, agent: Agent, data: st.DataObject):
    cache.clear()
    Trace.objects.all().delete()
    address, body = data.draw(st.sampled_from(sorted(valid_bodies(agent).items(), key=lambda item: item[0])))
    for name in data.draw(st.lists(st.sampled_from(sorted(body)), max_size=2)):
        body[name] = data.draw(VALUES)
    if data.draw(st.booleans()):
        body.update(data.draw(st.dictionaries(st.text(max_size=8), VALUES, max_size=2)))
    response = server.raw(address, json.dumps(body))
    assert response.status_code in (200, 201, 400, 404), response.content
    for path in ("/api/v1/traces/", "/api/v1/feedback/"):
        assert server.get(path).status_code == 200
