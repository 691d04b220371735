from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest

from rl.collect.feedback import write
from rl.models import Feedback, Trace
from rl.web.api.serializers.feedback import FeedbackOut
from tests.conftest import make_trace

pytestmark = pytest.mark.django_db


def events(trace: Trace) -> list[Feedback]:
    """One of each kind, a retraction included."""
    other, common = make_trace(trace.agent, response="Another answer."), {"rater": "anna", "source": "test"}
    when = datetime(2026, 3, 4, 5, 6, tzinfo=timezone(timedelta(hours=2)))
    rated = write.rate(trace, scale="stars", value=4, tags=["late", "é"], notes="why\n", rated_at=when, **common)
    others = [
        write.compare(trace, other, choice="left", **common),
        write.correct(trace, text="It is on its way.", **common),
        write.outcome(trace, metric="sold", value=-1.5, **common),
    ]
    fresh = [rated.event, *(said.event for said in others)]
    assert write.retract(rated.event, rater="anna", source="test")
    return [*fresh, *Feedback.objects.all()]


def test_it_is_what_its_fields_give(trace: Trace):
    document = FeedbackOut()
    slow = super(FeedbackOut, document).to_representation
    for event in events(trace):
        assert document.to_representation(event) == dict(slow(event))
        assert list(document.to_representation(event)) == list(slow(event))
