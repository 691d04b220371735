import uuid
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from rl.base.errors import UsageError
from rl.collect.feedback import write
from rl.models import Agent, Claim, Feedback, RatingQueue, Trace
from rl.queues import items
from rl.queues.claims import next_claims
from rl.queues.decisions import Rater, decide_all
from rl.queues.filters import read_filters
from rl.queues.votes import QueueVote, count_each, progress
from tests.admin.records import make_version
from tests.conftest import make_trace
from tests.queues.test_claims import ALICE, BOB, make_queue

pytestmark = pytest.mark.database

CLAIM, DECIDE, PROGRESS = 11, 9, 3


@pytest.fixture
def traces(agent: Agent) -> dict[str, Trace]:
    made = {
        "plain": make_trace(agent, "Où est le café?", "Là-bas."),
        "v2": make_trace(agent, model_version=make_version(agent, "v2"), source="gateway", details={"natural": True}),
    }
    write.rate(made["v2"], rater="x", scale="thumb", value=1, tags=["trop long é", "wrong"], source="test")
    return made


@pytest.mark.database
@pytest.mark.parametrize(
    ("filters", "names"),
    [
        ({}, {"plain", "v2"}),
        ({"search": "Où est"}, {"plain"}),
        ({"search": "ON ITS WAY"}, {"v2"}),
        ({"search": "100%"}, set()),
        ({"versions": ["base"]}, {"plain"}),
        ({"versions": ["v2", "base"]}, {"plain", "v2"}),
        ({"sources": ["gateway"]}, {"v2"}),
        ({"tags": ["trop long é", "other"]}, {"v2"}),
        ({"tags": ["rong"]}, set()),
        ({"rated": True}, {"v2"}),
        ({"rated": False}, {"plain"}),
        ({"from": "2020-01-01", "to": "2100-01-01"}, {"plain", "v2"}),
        ({"to": "2020-01-01"}, set()),
        ({"details": {"natural": True}}, {"v2"}),
        ({"rated": True, "versions": ["base"]}, set()),
    ],
)
def test_filters_choose_traces(traces: dict[str, Trace], filters: dict[str, Any], names: set[str]) -> None:
    chosen = set(Trace.objects.filter(read_filters(filters).condition()))
    assert chosen == {traces[name] for name in names}


@pytest.mark.parametrize(
    ("filters", "words"),
    [
        ([], "an object is wanted"),
        ({"serach": "x"}, "did you mean search"),
        ({"search": ""}, "filters.search: a text"),
        ({"search": "\0"}, "NUL"),
        ({"versions": "v2"}, "filters.versions: a list"),
        ({"rated": "no"}, "filters.rated: true or false"),
        ({"from": "2026-13-01"}, "filters.from: a date"),
        ({"from": "2026-02-01", "to": "2026-01-01"}, "later than to"),
        ({"details": {"a__b": 1}}, "not the name of a detail"),
        ({"details": {"a": None}}, "filters.details.a"),
    ],
)
def test_what_is_not_a_filter_is_refused_in_words(filters: Any, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        read_filters(filters)


"""Most statements, those that begin and end a transaction among them."""


@pytest.fixture(params=["newest"])
def queue(agent: Agent, request: pytest.FixtureRequest) -> RatingQueue:
    for number in range(60):
        make_trace(agent, f"question {number}")
    queue = make_queue(agent, raters_per_item=1, order=request.param)
    decide_all(queue, Rater(ALICE), votes_on(next_claims(queue, ALICE, want=3)), no_tags)
    return queue


def no_tags(trace: Trace) -> tuple[str, ...]:
    return ()


def votes_on(claims: list[Claim], **fields: object) -> list[QueueVote]:
    given = fields or {"value": 1}
    return [QueueVote.read({"id": str(uuid.uuid4()), "claim": claim.pk, **given}) for claim in claims]


@pytest.mark.parametrize("queue", RatingQueue.Order.values, indirect=True)
def test_a_claim_takes_as_many_statements_for_twenty_items_as_for_one(queue: RatingQueue) -> None:
    taken = []
    for rater, want in (("one", 1), ("twenty", 20)):
        with CaptureQueriesContext(connection) as statements:
            assert len(next_claims(queue, rater, want=want)) == want
        taken.append(len(statements))
    wraps = (
        queue.order == RatingQueue.Order.RANDOM
    )  # from a point of the rater's own to the end, and then from the start
    assert taken[0] <= taken[1] <= taken[0] + wraps
    assert taken[1] <= CLAIM


@pytest.mark.parametrize("fields", [{"value": 0}, {"action": "skip"}], ids=str)
def test_decisions_take_as_many_statements_for_twenty_as_for_one(queue: RatingQueue, fields: dict[str, object]) -> None:
    taken = []
    for rater, want in (("one", 1), ("twenty", 20)):
        votes = votes_on(next_claims(queue, rater, want=want), **fields)
        with CaptureQueriesContext(connection) as statements:
            outcomes = decide_all(queue, Rater(rater), votes, no_tags)
        assert all(isinstance(outcome, Claim) for outcome in outcomes)
        taken.append(len(statements))
    assert taken[0] == taken[1] <= DECIDE


def test_progress_takes_few_statements(queue: RatingQueue, django_assert_max_num_queries) -> None:
    with django_assert_max_num_queries(PROGRESS):
        assert progress(queue, ALICE).done == 3


def test_each_decision_of_a_batch_has_an_outcome_of_its_own(queue: RatingQueue) -> None:
    claims = next_claims(queue, BOB, want=5)
    votes = votes_on(claims[:3])
    bad = [*votes_on(claims[3:4], value=0.5), *votes_on([Claim(pk=10**9)])]
    good, known, skipped = votes[0], votes[1], votes_on(claims[2:3], action="skip")[0]
    assert decide_all(queue, Rater(BOB), [known], no_tags)[0].state == Claim.State.DECIDED
    outcomes = decide_all(queue, Rater(BOB), [good, bad[0], known, bad[1], skipped], no_tags)
    assert [type(outcome) for outcome in outcomes] == [Claim, UsageError, Claim, UsageError, Claim]
    assert [str(outcomes[at])[:30] for at in (1, 3)] == [
        "value: one of 0, 1 is wanted, ",
        "claim: 1000000000 is not an it",
    ]
    states = Claim.objects.filter(rater=BOB).order_by("pk").values_list("state", flat=True)
    assert list(states) == ["decided", "decided", "skipped", "claimed", "claimed"]
    assert Feedback.objects.filter(rater=BOB).count() == 2


def test_votes_on_one_item_are_taken_in_their_order(queue: RatingQueue) -> None:
    [claim] = next_claims(queue, BOB, want=1)
    votes = [*votes_on([claim]), *votes_on([claim], action="undo"), *votes_on([claim], value=0)]
    outcomes = decide_all(queue, Rater(BOB), votes, no_tags)
    assert [outcome.feedback and outcome.feedback.value for outcome in outcomes] == [1, None, 0]
    assert decide_all(queue, Rater(BOB), [], no_tags) == []


def test_an_id_that_is_stored_for_another_item_costs_the_others_nothing(queue: RatingQueue) -> None:
    claims = next_claims(queue, BOB, want=3)
    votes = votes_on(claims)
    same = QueueVote.read({"id": str(votes[0].id), "claim": claims[1].pk, "value": 1})
    outcomes = decide_all(queue, Rater(BOB), [votes[0], same, votes[2]], no_tags)
    assert [isinstance(outcome, Claim) for outcome in outcomes] == [True, False, True]
    assert "stored already, for another item" in str(outcomes[1])
    assert Feedback.objects.filter(rater=BOB).count() == 2


def test_an_item_that_others_took_meanwhile_is_refused_alone(queue: RatingQueue) -> None:
    claims = next_claims(queue, BOB, want=2)
    Claim.objects.filter(pk=claims[0].pk).update(expires_at=timezone.now() - timedelta(seconds=1))
    assert next_claims(queue, "carol", want=1)[0].trace_id == claims[0].trace_id
    outcomes = decide_all(queue, Rater(BOB), votes_on(claims), no_tags)
    assert [isinstance(outcome, Claim) for outcome in outcomes] == [False, True]
    assert "somebody else has it now" in str(outcomes[0])


def test_counts_of_several_queries_are_those_of_each(queue: RatingQueue) -> None:
    everything = Trace.objects.all()
    parts = (everything, everything[:7], everything.filter(pk__in=[]), Claim.objects.filter(rater=ALICE))
    assert count_each(*parts) == [60, 7, 0, 3]


def test_what_nobody_rated_is_asked_among_the_newest(queue: RatingQueue, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(items, "UNRATED", 5)
    queue.filters = {"rated": False}
    newest = set(Trace.objects.filter(agent=queue.agent_id).order_by("-created_at", "id")[:5])
    assert set(items.all_items(queue, BOB)) <= newest
    queue.filters = {}
    assert len(items.all_items(queue, BOB)) == 60
