import pytest
from django.db import IntegrityError, transaction

from rl.models import Feedback
from tests.conftest import make_trace

pytestmark = pytest.mark.django_db


def rating(trace, rater="ann", **fields) -> Feedback:
    values = {"scale": "thumb", "raw_value": 1.0, "value": 1.0, **fields}
    return Feedback.objects.create(agent=trace.agent, trace=trace, kind="rating", rater=rater, **values)


def test_one_rating_per_rater_and_trace_is_current(trace):
    rating(trace)
    with pytest.raises(IntegrityError), transaction.atomic():
        rating(trace)


def test_superseded_ratings_stay(trace):
    rating(trace, is_current=False)
    rating(trace, is_current=False)
    assert rating(trace).is_current
    assert trace.feedback.count() == 3


def test_two_raters_may_rate_one_trace(trace):
    rating(trace, "ann")
    rating(trace, "ben")
    assert trace.feedback.filter(is_current=True).count() == 2


@pytest.mark.parametrize("value", [-0.1, 1.1])
def test_a_value_outside_0_to_1_is_refused_by_the_database(trace, value):
    with pytest.raises(IntegrityError), transaction.atomic():
        rating(trace, value=value)


def test_a_rating_needs_a_value(trace):
    with pytest.raises(IntegrityError), transaction.atomic():
        rating(trace, value=None)


def test_a_comparison_needs_two_sides(trace):
    with pytest.raises(IntegrityError), transaction.atomic():
        Feedback.objects.create(agent=trace.agent, trace=trace, kind="comparison", rater="ann", choice="left")
    other = make_trace(trace.agent, response="Other.")
    kept = Feedback.objects.create(
        agent=trace.agent, trace=trace, other_trace=other, kind="comparison", rater="ann", choice="left"
    )
    assert kept.is_current


def test_the_same_external_id_is_one_trace_per_agent(agent):
    make_trace(agent, external_id="e00001")
    with pytest.raises(IntegrityError), transaction.atomic():
        make_trace(agent, external_id="e00001")


def test_traces_without_an_external_id_do_not_clash(agent):
    make_trace(agent)
    make_trace(agent)
    assert agent.traces.count() == 2


def test_the_same_prompt_has_the_same_key(agent):
    first, second, third = (make_trace(agent, question) for question in ("Why?", "Why?", "Who?"))
    assert first.prompt_key == second.prompt_key != third.prompt_key
