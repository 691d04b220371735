"""Keys and agents are read again after REFRESH_SECONDS, and no later."""

from typing import Any

import pytest
from rest_framework import serializers
from rest_framework.exceptions import ValidationError

from rl.models import ApiKey, Feedback, Trace
from rl.serving.gateway.table import REFRESH_SECONDS
from rl.web.api.serializers.fields import StrictSerializer, TextField
from rl.web.api.serializers.traces import FEEDBACK_IN, TraceIn
from tests.web.api.conftest import Caller, assert_problem
from tests.web.api.test_feedback_post import URL, body

pytestmark = pytest.mark.django_db
TRACE = "0198a1b2-0000-7000-8000-000000000001"
RATING = {"trace": TRACE, "rater": " anna ", "scale": "stars", "value": 4}
ANSWER = {"agent": "a", "prompt": "?", "response": "Yes."}


@pytest.fixture
def clock(monkeypatch) -> list[float]:
    now = [1000.0]
    monkeypatch.setattr("rl.web.api.auth.time.monotonic", lambda: now[0])
    return now


def test_a_revoked_key_is_refused_within_the_bound(server: Caller, trace: Trace, clock: list[float]):
    assert server.post(URL, body(trace)).status_code == 201
    ApiKey.objects.get().revoke()
    clock[0] += REFRESH_SECONDS
    assert_problem(server.post(URL, body(trace, value=0)), 401, "revoked")
    assert Feedback.objects.get().value == 1


def test_a_key_that_is_made_just_now_works_at_once(trace: Trace, clock: list[float]):
    assert_problem(Caller("sk_unknown").post(URL, body(trace)), 401)
    key = ApiKey.create(name="new", kind="secret")[1]
    assert Caller(key).post(URL, body(trace)).status_code == 201


def test_a_renamed_agent_has_its_new_name_within_the_bound(server: Caller, trace: Trace, clock: list[float]):
    server.post(URL, body(trace))
    trace.agent.name = "chat"
    trace.agent.save()
    clock[0] += REFRESH_SECONDS
    assert server.post(URL, body(trace)).json()["agent"] == "chat"


def test_a_key_that_is_deleted_while_it_is_known_rates_nothing(server: Caller, trace: Trace, clock: list[float]):
    server.post(URL, body(trace))
    Feedback.objects.all().delete()
    ApiKey.objects.all().delete()
    clock[0] += REFRESH_SECONDS
    assert_problem(server.post(URL, body(trace)), 401)


def test_no_more_are_remembered_than_there_is_room_for(monkeypatch, clock: list[float]):
    from rl.web.api.auth import Known

    monkeypatch.setattr("rl.web.api.auth.MOST", 2)
    asked: list[int] = []
    known: Known[int, int] = Known(lambda name: asked.append(name) or name)
    for name in (1, 2, 3, 3, 1):
        assert known.get(name) == name
    assert asked == [1, 2, 3, 1]


def checked(serializer: serializers.Serializer, data: Any) -> Any:
    try:
        return serializer.run_validation(data)
    except ValidationError as error:
        return error.get_full_details()


def usual(strict: type[StrictSerializer]) -> serializers.Serializer:
    """The same fields and checks, in REST framework's own loop."""
    names = {"to_internal_value": serializers.Serializer.to_internal_value}
    names |= {"run_validators": serializers.Serializer.run_validators}
    return type("Usual", (strict,), names)()


@pytest.mark.parametrize(
    "data",
    [
        ANSWER,
        {**ANSWER, "external_id": None, "tokens_in": 3, "cost": 1, "state": [], "occurred_at": "2026-01-02T03:04:05Z"},
        {"agent": "a", "prompt": [{"role": "user", "content": "?"}], "action": {"x": 1}},
        {"prompt": "?"},
        {},
        None,
        [],
        "text",
        {**ANSWER, "agent": "x" * 65, "tokens_in": -1, "cost": -1, "details": [], "occurred_at": 5, "session_id": None},
        {**ANSWER, "response": "a\x00b\ud800", "agent": "\udfff"},
        {**ANSWER, "response": "🙂", "token": ""},
    ],
)
def test_an_answer_is_checked_as_ever(data: Any):
    assert checked(TraceIn(), data) == checked(usual(TraceIn), data)


@pytest.mark.parametrize("kind", FEEDBACK_IN)
@pytest.mark.parametrize(
    "data",
    [
        RATING,
        {**RATING, "tags": ["a", 5], "notes": "", "rated_at": "2026-01-02", "token": ""},
        {**RATING, "value": True, "scale": "thumb", "tags": ["x" * 1000], "rater": " "},
        {**RATING, "kind": "correction", "text": "Yes\ud800"},
        {**RATING, "kind": "outcome", "metric": " m ", "other_trace": TRACE, "choice": "left"},
        {"trace": "no id"},
    ],
)
def test_feedback_is_checked_as_ever(kind: str, data: dict[str, Any]):
    strict = FEEDBACK_IN[kind]
    known = {name: value for name, value in data.items() if name in strict().fields}
    assert checked(strict(), known) == checked(usual(strict), known)


def test_halves_of_a_surrogate_pair_are_named_as_ever():
    with pytest.raises(ValidationError) as refused:
        TextField().run_validation("ok \udc00")
    with pytest.raises(ValidationError) as as_ever:
        serializers.CharField().run_validation("ok \udc00")
    assert refused.value.get_full_details() == as_ever.value.get_full_details()
