import threading
from datetime import timedelta

import pytest
from django.db import connection
from django.utils import timezone

from rl.base.errors import UsageError
from rl.collect.feedback import write
from rl.collect.feedback.events import CONTENT, normalise, rating, say_the_same, statement
from rl.models import Agent, Feedback, Trace
from tests.conftest import make_trace

pytestmark = pytest.mark.database


NOW = timezone.now() - timedelta(hours=1)


def rate(trace: Trace, value: float = 1, **fields) -> write.Rated:
    return write.rate(trace, **{"rater": "anna", "scale": "thumb", "source": "test", "value": value, **fields})


def current() -> list[float | None]:
    return list(Feedback.objects.filter(kind="rating", is_current=True).order_by("id").values_list("value", flat=True))


@pytest.mark.parametrize(
    ("scale", "raw", "value"),
    [
        ("thumb", 0, 0.0),
        ("thumb", 1, 1.0),
        ("stars", 1, 0.0),
        ("stars", 3, 0.5),
        ("stars", 5, 1.0),
        ("score", 0.3, 0.3),
    ],
)
def test_every_scale_becomes_zero_to_one(scale: str, raw: float, value: float):
    assert normalise(scale, raw) == value


@pytest.mark.parametrize(
    ("scale", "raw", "says"),
    [
        ("thumb", 0.5, "0 or 1"),
        ("thumb", 2, "0 or 1"),
        ("stars", 0, "1 to 5"),
        ("stars", 3.5, "whole number"),
        ("stars", 6, "1 to 5"),
        ("stars", True, "1 to 5"),
        ("score", 1.01, "0 to 1"),
        ("score", float("nan"), "0 to 1"),
        ("score", float("inf"), "0 to 1"),
        ("score", "1", "0 to 1"),
        ("smileys", 1, "thumb, stars, score"),
    ],
)
def test_a_value_that_the_scale_has_not_is_refused_with_what_it_has(scale: str, raw: float, says: str):
    with pytest.raises(UsageError, match=says):
        normalise(scale, raw)


def test_a_rating_is_stored_with_what_was_given_and_normalised(trace: Trace):
    rated = rate(trace, 4, scale="stars", tags=["slow"], notes="took a while", rated_at=NOW)
    event = Feedback.objects.get()
    assert (rated.event, rated.created, rated.changed) == (event, True, True)
    assert (event.raw_value, event.value, event.tags, event.notes) == (4, 0.75, ["slow"], "took a while")
    assert (event.agent_id, event.rated_at, event.source) == (trace.agent_id, NOW, "test")


def test_a_second_rating_supersedes_the_first_and_both_are_kept(trace: Trace):
    first = rate(trace, 1)
    second = rate(trace, 0)
    assert (second.created, second.changed) == (False, True)
    assert current() == [0]
    assert Feedback.objects.get(pk=first.event.pk).is_current is False
    assert write.current_rating(trace, "anna") == second.event


def test_raters_and_traces_do_not_disturb_each_other(agent: Agent, trace: Trace):
    rate(trace, 1)
    assert rate(trace, 0, rater="ben").created
    assert rate(make_trace(agent, "another question"), 0).created
    assert current() == [1, 0, 0]


def test_the_same_rating_twice_is_stored_once(trace: Trace):
    first = rate(trace, 1, tags=["good"], notes="yes")
    again = rate(trace, 1, tags=["good"], notes="yes")
    assert (again.event, again.created, again.changed) == (first.event, False, False)
    assert Feedback.objects.count() == 1


@pytest.mark.parametrize("change", [{"tags": ["good"]}, {"notes": "because"}, {"scale": "score"}])
def test_the_same_value_with_something_new_said_is_a_new_rating(trace: Trace, change: dict):
    rate(trace, 1)
    assert rate(trace, 1, **change).changed
    assert len(current()) == 1


def test_a_rating_that_is_older_than_the_current_one_changes_nothing(trace: Trace):
    rate(trace, 1, rated_at=NOW)
    late = rate(trace, 0, rated_at=NOW - timedelta(seconds=1))
    assert (late.event.value, late.created, late.changed) == (1, False, False)
    assert Feedback.objects.count() == 1


def test_a_clock_that_runs_ahead_does_not_win_over_later_ratings(trace: Trace):
    rate(trace, 1, rated_at=timezone.now() + timedelta(days=400))
    assert rate(trace, 0).changed
    assert current() == [0]


def test_a_retracted_rating_is_kept_but_not_current(trace: Trace):
    event = rate(trace).event
    assert write.retract(event, rater="anna", source="test") is True
    assert write.current_rating(trace, "anna") is None
    retraction = Feedback.objects.get(kind="retraction")
    assert (retraction.retracts, retraction.rater, retraction.is_current) == (event, "anna", False)
    assert Feedback.objects.count() == 2


def test_retracting_twice_does_nothing_the_second_time(trace: Trace):
    event = rate(trace).event
    write.retract(event, rater="anna", source="test")
    assert write.retract(Feedback.objects.get(pk=event.pk), rater="anna", source="test") is False
    assert Feedback.objects.count() == 2


def test_a_superseded_rating_cannot_be_retracted(trace: Trace):
    first = rate(trace, 1).event
    rate(trace, 0)
    assert write.retract(first, rater="anna", source="test") is False
    assert current() == [0]


def test_rating_again_after_a_retraction_counts_as_new(trace: Trace):
    write.retract(rate(trace, 1).event, rater="anna", source="test")
    again = rate(trace, 1)
    assert (again.created, again.changed) == (True, True)
    assert current() == [1]


def test_a_late_repeat_does_not_bring_a_retracted_rating_back(trace: Trace):
    write.retract(rate(trace, 1, rated_at=NOW).event, rater="anna", source="test")
    assert rate(trace, 1, rated_at=NOW).changed is False
    assert current() == []


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"tags": ["x"] * 21}, "at most 20 tags"),
        ({"tags": ["x" * 61]}, "60 characters"),
        ({"notes": "x" * 4001}, "4000 characters"),
        ({"notes": "a\x00b"}, "NUL"),
        ({"notes": "a\ud800b"}, "surrogate"),
        ({"tags": ["\udfff"]}, "surrogate"),
        ({"rater": "  "}, "named"),
        ({"rater": "x" * 201}, "200 characters"),
        ({"rater": "a\x00"}, "NUL"),
    ],
)
def test_what_cannot_be_stored_is_refused_before_anything_is_written(trace: Trace, fields: dict, says: str):
    with pytest.raises(UsageError, match=says):
        rate(trace, **fields)
    assert not Feedback.objects.exists()


def test_many_ratings_are_stored_in_chunks_with_a_constant_number_of_queries(
    agent: Agent, django_assert_max_num_queries
):
    traces = [make_trace(agent, f"question {n}") for n in range(write.CHUNK + 5)]
    common = {"rater": "anna", "scale": "thumb", "source": "test"}
    events = [rating(trace, value=n % 2, **common) for n, trace in enumerate(traces)]
    inserts = write.CHUNK // connection.ops.bulk_batch_size(Feedback._meta.concrete_fields, events) + 1
    with django_assert_max_num_queries(2 * (inserts + 4)):
        rated = write.record(events)
    assert [r.event.trace_id for r in rated] == [trace.pk for trace in traces]
    assert all(r.created for r in rated)
    assert len(current()) == len(traces)


def test_a_trace_rated_twice_in_one_list_ends_with_the_later_rating(trace: Trace):
    common = {"rater": "anna", "scale": "thumb", "source": "test"}
    rated = write.record([rating(trace, value=value, **common) for value in (1, 0)])
    assert [r.created for r in rated] == [True, False]
    assert current() == [0]


@pytest.mark.django_db(transaction=True)
def test_raters_who_race_leave_one_current_rating():
    trace = make_trace(Agent.objects.create(name="raced"))
    barrier, failures = threading.Barrier(6), []

    def vote(value: float) -> None:
        try:
            barrier.wait(timeout=60)
            for _ in range(5):
                rate(trace, value, notes=f"by {threading.get_ident()}")
        except Exception as error:  # reported by the assertion below
            failures.append(error)
        finally:
            connection.close()

    threads = [threading.Thread(target=vote, args=(n % 2,)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert failures == []
    assert len(current()) == 1


COMMON = {"rater": "anna", "source": "test"}


def test_a_comparison_names_both_answers(agent: Agent, trace: Trace):
    right = make_trace(agent, response="It was sent today.")
    compared = write.compare(trace, right, choice="right", **COMMON)
    event = Feedback.objects.get(kind="comparison")
    assert compared.event == event
    assert (event.trace, event.other_trace, event.choice, event.is_current) == (trace, right, "right", True)


def test_a_comparison_that_means_nothing_is_refused(agent: Agent, trace: Trace):
    with pytest.raises(UsageError, match="itself"):
        write.compare(trace, trace, choice="left", **COMMON)
    with pytest.raises(UsageError, match="same prompt"):
        write.compare(trace, make_trace(agent, "another question"), choice="left", **COMMON)
    with pytest.raises(UsageError, match="left, right, tie, both_bad"):
        write.compare(trace, make_trace(agent), choice="middle", **COMMON)


def test_a_correction_keeps_the_better_text(trace: Trace):
    event = write.correct(trace, text="It arrives tomorrow.", **COMMON).event
    assert Feedback.objects.get(kind="correction").text == event.text == "It arrives tomorrow."


@pytest.mark.parametrize("text", ["", " \n", "On its way.", "a\x00b"])
def test_a_correction_that_corrects_nothing_is_refused(trace: Trace, text: str):
    with pytest.raises(UsageError):
        write.correct(trace, text=text, **COMMON)


def test_an_outcome_keeps_its_number_as_it_is(trace: Trace):
    write.outcome(trace, metric="refund_eur", value=-12.5, **COMMON)
    event = Feedback.objects.get(kind="outcome")
    assert (event.metric, event.raw_value, event.value) == ("refund_eur", -12.5, None)


@pytest.mark.parametrize(("metric", "value"), [("", 1), ("m", float("nan")), ("m", float("inf")), ("m" * 101, 1)])
def test_an_outcome_needs_a_name_and_a_number(trace: Trace, metric: str, value: float):
    with pytest.raises(UsageError):
        write.outcome(trace, metric=metric, value=value, **COMMON)


def test_saying_the_same_thing_twice_stores_it_once(agent: Agent, trace: Trace):
    right = make_trace(agent, response="It was sent today.")
    for _ in range(2):
        compared = write.compare(trace, right, choice="tie", **COMMON)
        corrected = write.correct(trace, text="Better.", **COMMON)
        observed = write.outcome(trace, metric="solved", value=1, **COMMON)
    assert not any(rated.created or rated.changed for rated in (compared, corrected, observed))
    assert Feedback.objects.count() == 3


def test_a_deleted_trace_cannot_be_corrected(trace: Trace):
    gone = Trace.objects.get(pk=trace.pk)
    trace.delete()
    with pytest.raises(UsageError, match="deleted"):
        write.correct(gone, text="Better.", **COMMON)


ABOUT = {"id", "agent_id", "trace_id", "kind", "rater", "address", "source", "api_key_id", "user_id"}
ABOUT |= {"rated_at", "created_at"}
BECAME_OF_IT = {"is_current", "retracts_id", "training_set_id", "quarantine_id"}
FOLLOWS = {"value"}
"""From the scale and the raw value."""


def test_no_column_is_forgotten():
    columns = {field.attname for field in Feedback._meta.concrete_fields}
    assert columns == {*CONTENT, *ABOUT, *BECAME_OF_IT, *FOLLOWS}


def test_the_scale_is_part_of_what_a_rating_says():
    thumb, score = (Feedback(kind="rating", rater="anna", scale=scale, raw_value=1.0) for scale in ("thumb", "score"))
    assert not say_the_same(thumb, score)
    assert say_the_same(thumb, Feedback(kind="rating", rater="bert", scale="thumb", raw_value=1.0))
    assert statement(thumb) != statement(Feedback(kind="rating", rater="bert", scale="thumb", raw_value=1.0))
