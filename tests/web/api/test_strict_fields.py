"""What is checked without REST framework's loop over all fields says what that loop says."""

from __future__ import annotations

from typing import Any

import pytest
from rest_framework import serializers
from rest_framework.exceptions import ValidationError

from rl.web.api.serializers.feedback import FEEDBACK_IN
from rl.web.api.serializers.fields import StrictSerializer, TextField
from rl.web.api.serializers.traces import TraceIn

TRACE = "0198a1b2-0000-7000-8000-000000000001"
RATING = {"trace": TRACE, "rater": " anna ", "scale": "stars", "value": 4}
ANSWER = {"agent": "a", "prompt": "?", "response": "Yes."}


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
