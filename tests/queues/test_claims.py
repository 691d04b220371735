import threading
import uuid
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from rl.base.errors import UsageError
from rl.collect.feedback import write
from rl.collect.traces.episodes import store_episodes
from rl.models import Agent, AnswerPair, Claim, Feedback, GoldItem, LabelModel, LabelProposal, RatingQueue, Trace
from rl.queues.claims import lock_end, next_claims
from rl.queues.decisions import Rater, decide
from rl.queues.votes import QueueVote, progress
from tests.collect.made_episodes import episode
from tests.conftest import make_trace

pytestmark = pytest.mark.database


ALICE, BOB = "user:alice", "user:bob"
NO_CONTROLS = {"gold_share": 0, "repeat_share": 0}


def make_queue(agent: Agent, **fields: Any) -> RatingQueue:
    return RatingQueue.objects.create(agent=agent, name="q", **{**NO_CONTROLS, **fields})


@pytest.fixture
def answers(agent: Agent) -> list[Trace]:
    return [make_trace(agent, f"question {number}") for number in range(6)]


def vote(claim: Claim, action: str = "rate", **fields: Any) -> Claim:
    given = {"id": str(uuid.uuid4()), "claim": claim.pk, "action": action, **fields}
    return decide(claim.queue, Rater(claim.rater), QueueVote.read(given), lambda trace: ("wrong",))


def ask(queue: RatingQueue, rater: str = ALICE) -> Claim | None:
    claims = next_claims(queue, rater, want=1)
    return claims[0] if claims else None


def rate_all(queue: RatingQueue, rater: str = ALICE) -> list[Claim]:
    claims = []
    while claim := ask(queue, rater):
        claims.append(vote(claim, **({"choice": "left"} if claim.other_trace_id else {"value": 1})))
    return claims


# --- order ------------------------------------------------------------------------------------------------------------


def test_the_newest_first(agent: Agent, answers: list[Trace]) -> None:
    assert [claim.trace for claim in rate_all(make_queue(agent))] == answers[::-1]


def test_the_oldest_first(agent: Agent, answers: list[Trace]) -> None:
    assert [claim.trace for claim in rate_all(make_queue(agent, order="oldest"))] == answers


def test_at_random_means_in_an_order_of_the_raters_own(agent: Agent) -> None:
    """Ids are spread evenly: by chance ten raters begin with the same answer once in 10 ** 9 runs."""
    answers = [make_trace(agent, id=uuid.UUID(int=number << 125)) for number in range(8)]
    queue = make_queue(agent, order="random")
    orders = {rater: [claim.trace_id for claim in rate_all(queue, rater)] for rater in (f"r{n}" for n in range(10))}
    assert all(set(order) == {trace.pk for trace in answers} for order in orders.values())
    assert len({order[0] for order in orders.values()}) > 1


def test_answers_of_real_use_come_before_those_of_a_demo_and_episodes_come_last(agent: Agent) -> None:
    real = make_trace(agent)
    store_episodes(agent, [episode("a")])
    demo = make_trace(agent, source="simulation")
    queue = make_queue(agent)
    assert vote(ask(queue), value=1).trace == real
    assert vote(ask(queue), value=1).trace == demo
    late = make_trace(agent, "late")
    assert vote(ask(queue), value=1).trace == late
    assert ask(queue).trace.source == "episode"


def test_where_the_judge_is_least_sure_comes_first(agent: Agent, answers: list[Trace]) -> None:
    judge = LabelModel.objects.create(agent=agent, labels=1, heldout_labels=1, heldout_accuracy=1, majority_share=0.5)
    for trace, confidence in ((answers[2], 0.9), (answers[0], 0.52)):
        LabelProposal.objects.create(trace=trace, label_model=judge, good=True, confidence=confidence)
    order = [claim.trace for claim in rate_all(make_queue(agent, order="uncertain"))]
    assert order == [answers[0], answers[2], answers[5], answers[4], answers[3], answers[1]]


def test_where_the_model_chose_with_the_least_certainty_comes_first(agent: Agent, answers: list[Trace]) -> None:
    for trace, share in ((answers[2], 0.9), (answers[0], 0.41), (answers[3], 1.0)):
        Trace.objects.filter(pk=trace.pk).update(details={"chosen": {"among": 3, "share": share}})
    order = [claim.trace for claim in rate_all(make_queue(agent, order="unsure"))]
    assert order == [answers[0], answers[2], answers[5], answers[4], answers[3], answers[1]]


def test_where_raters_disagree_comes_first(agent: Agent, answers: list[Trace]) -> None:
    for rater, value in (("x", 0), ("y", 1)):
        write.rate(answers[1], rater=rater, scale="thumb", value=value, source="test")
    write.rate(answers[2], rater="x", scale="thumb", value=1, source="test")
    assert ask(make_queue(agent, order="disputed")).trace == answers[1]


def test_duels_that_decide_about_a_version_come_first(agent: Agent) -> None:
    pairs = [make_pair(agent, number) for number in range(3)]
    AnswerPair.objects.filter(pk=pairs[0].pk).update(origin="duel")
    order = [claim.pair for claim in rate_all(make_queue(agent, rubric="pair"))]
    assert order == [pairs[0], pairs[2], pairs[1]]


def test_answers_of_duels_are_compared_and_not_rated_one_by_one(agent: Agent) -> None:
    make_trace(agent, "In use?", source="duel")
    asked = make_trace(agent, "Asked?")
    assert [claim.trace for claim in rate_all(make_queue(agent))] == [asked]


def make_pair(agent: Agent, number: int) -> AnswerPair:
    left, right = (make_trace(agent, f"question {number}", side) for side in ("left", "right"))
    return AnswerPair.objects.create(agent=agent, left=left, right=right, origin="second")


# --- whose it is ------------------------------------------------------------------------------------------------------


def test_everybody_is_asked_about_everything_where_the_number_of_raters_is_left_open(agent: Agent, answers) -> None:
    queue = make_queue(agent)
    assert len(rate_all(queue, ALICE)) == len(rate_all(queue, BOB)) == 6


@pytest.mark.parametrize("number", [1, 2])
def test_an_item_is_for_so_many_raters(agent: Agent, answers: list[Trace], number: int) -> None:
    queue = make_queue(agent, raters_per_item=number)
    numbers = [len(rate_all(queue, rater)) for rater in ("a", "b", "c")]
    assert numbers == [6] * number + [0] * (3 - number)


def test_an_item_is_free_again_after_its_lock_and_what_comes_late_is_refused(agent: Agent, answers) -> None:
    queue = make_queue(agent, raters_per_item=1)
    mine = ask(queue, ALICE)
    assert ask(queue, BOB).trace != mine.trace
    Claim.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
    his = {claim.trace_id: claim for claim in next_claims(queue, BOB, want=6)}
    with pytest.raises(UsageError, match="somebody else has it now"):
        vote(mine, value=1)
    assert not Feedback.objects.exists()
    assert vote(his[mine.trace_id], value=0).state == Claim.State.DECIDED


def test_a_lock_that_ended_is_harmless_while_nobody_took_the_item(agent: Agent, trace: Trace) -> None:
    claim = ask(make_queue(agent, raters_per_item=1))
    Claim.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
    assert vote(claim, value=1).feedback is not None


def test_what_the_page_holds_is_renewed_and_not_given_out_again(agent: Agent, answers: list[Trace]) -> None:
    queue = make_queue(agent, raters_per_item=1)
    held = next_claims(queue, ALICE, want=2)
    Claim.objects.update(expires_at=timezone.now() + timedelta(seconds=10))
    more = next_claims(queue, ALICE, want=2, holding=[claim.pk for claim in held])
    assert not {claim.pk for claim in more} & {claim.pk for claim in held}
    assert min(claim.expires_at for claim in Claim.objects.all()) > timezone.now() + timedelta(seconds=200)


def test_a_reload_shows_the_same_items_and_writes_nothing(agent: Agent, answers: list[Trace]) -> None:
    queue = make_queue(agent, raters_per_item=1)
    first = next_claims(queue, ALICE, want=3)
    with CaptureQueriesContext(connection) as statements:
        assert next_claims(queue, ALICE, want=3) == first
    assert {row["sql"].partition(" ")[0] for row in statements} == {"SELECT"}
    Claim.objects.update(expires_at=timezone.now() + timedelta(seconds=queue.lock_seconds * 0.8))
    assert next_claims(queue, ALICE, want=3) == first
    assert min(claim.expires_at for claim in Claim.objects.all()) > lock_end(queue, passed=0.05)


def test_a_closed_queue_hands_out_nothing_and_takes_what_is_open(agent: Agent, answers: list[Trace]) -> None:
    queue = make_queue(agent)
    claim = ask(queue)
    queue.closed_at = timezone.now()
    queue.save()
    assert ask(queue) is None
    assert vote(claim, value=1).feedback is not None


def test_empty_answers_other_agents_and_what_one_has_rated_elsewhere_are_not_asked_about(agent: Agent) -> None:
    make_trace(agent, response="")
    make_trace(Agent.objects.create(name="other"))
    write.rate(make_trace(agent), rater=ALICE, scale="thumb", value=1, source="test")
    assert ask(make_queue(agent)) is None


# --- decisions --------------------------------------------------------------------------------------------------------


def test_skipped_items_come_again_at_the_end_the_longest_ago_first(agent: Agent, answers: list[Trace]) -> None:
    queue = make_queue(agent, order="oldest")
    for _ in range(2):
        vote(ask(queue), "skip")
    assert [claim.trace for claim in rate_all(queue)] == [*answers[2:], *answers[:2]]


def test_undo_takes_back_what_was_written_also_a_skip(agent: Agent, answers: list[Trace]) -> None:
    queue = make_queue(agent)
    first = vote(ask(queue), value=1)
    assert vote(first, "undo").feedback is None
    assert not Feedback.objects.filter(is_current=True).exists()
    assert ask(queue) == first
    vote(first, "skip")
    assert ask(queue) != first
    vote(first, "undo")
    assert ask(queue) == first
    assert vote(first, value=0).feedback.value == 0
    with pytest.raises(UsageError, match="nothing to undo"):
        vote(ask(queue), "undo")


def test_votes_that_are_sent_again_change_nothing(agent: Agent, trace: Trace) -> None:
    claim = ask(make_queue(agent))
    votes = [
        QueueVote.read({"id": str(uuid.uuid4()), "claim": claim.pk, **fields})
        for fields in ({"value": 1}, {"action": "undo"}, {"value": 0})
    ]
    for _ in range(2):
        for given in votes:
            decide(claim.queue, Rater(ALICE), given, lambda trace: ())
    assert list(Feedback.objects.order_by("pk").values_list("kind", flat=True)) == ["rating", "retraction", "rating"]
    assert Feedback.objects.get(is_current=True).value == 0


def test_an_id_is_for_one_item(agent: Agent, answers: list[Trace]) -> None:
    queue, key = make_queue(agent), str(uuid.uuid4())
    vote(ask(queue), value=1, id=key)
    with pytest.raises(UsageError, match="stored already, for another item"):
        vote(ask(queue), value=1, id=key)
    assert Feedback.objects.count() == 1


@pytest.mark.parametrize(
    ("rubric", "value", "scale", "raw"),
    [("thumbs", 1, "thumb", 1), ("stars", 0.75, "stars", 4), ("score", 0.3, "score", 0.3)],
)
def test_a_value_is_stored_on_the_rubrics_scale(
    agent, trace, rubric: str, value: float, scale: str, raw: float
) -> None:
    event = vote(ask(make_queue(agent, rubric=rubric)), value=value, tags=["wrong"], notes="so").feedback
    assert (event.scale, event.raw_value, event.value, event.tags, event.notes) == (scale, raw, value, ["wrong"], "so")


def test_an_edit_is_a_correction(agent: Agent, trace: Trace) -> None:
    assert vote(ask(make_queue(agent, rubric="edit")), text="Better.").feedback.text == "Better."


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({}, "value: the queue q asks for it"),
        ({"value": 0.5}, "value: one of 0, 1 is wanted"),
        ({"value": 1, "text": "x"}, "asks for value alone"),
        ({"value": 1, "tags": ["no such"]}, "unknown tag 'no such'"),
        ({"value": 7}, "from 0 to 1"),
        ({"choice": "left"}, "value: the queue q asks"),
        ({"value": 1, "colour": "red"}, "unknown field 'decision.colour'"),
        ({"value": 1, "id": "x"}, "id: a UUID"),
        ({"value": 1, "at": "soon"}, "at: a time"),
        ({"action": "like"}, "unknown action 'like'"),
    ],
)
def test_what_cannot_be_is_refused_in_words(agent: Agent, trace: Trace, fields: dict[str, Any], words: str) -> None:
    claim = ask(make_queue(agent))
    with pytest.raises(UsageError, match=words):
        vote(claim, **{"action": "rate", **fields})
    assert not Feedback.objects.exists()


def test_nobody_decides_for_somebody_else(agent: Agent, trace: Trace) -> None:
    claim = ask(make_queue(agent))
    for other in (BOB, ALICE):
        claim.rater, claim.pk = other, claim.pk + (other == ALICE)
        with pytest.raises(UsageError, match="not an item of yours"):
            vote(claim, value=1)


# --- gold items and repeats -------------------------------------------------------------------------------------------


def test_gold_items_and_repeats_come_after_five_decisions_and_write_no_feedback(agent: Agent) -> None:
    for number in range(60):
        make_trace(agent, f"question {number}")
    queue = make_queue(agent, gold_share=0.2, repeat_share=0.2)
    for number in range(8):
        GoldItem.objects.create(queue=queue, trace=make_trace(agent, f"gold {number}"), value=1)
    claims = rate_all(queue)
    purposes = [claim.purpose for claim in claims]
    assert purposes[:5] == ["item"] * 5
    assert purposes.count("item") == 60
    assert 4 <= purposes.count("gold") <= 8
    assert 4 <= purposes.count("repeat") <= 30
    assert Feedback.objects.count() == 60
    assert all(claim.feedback is None and claim.decision["value"] == 1 for claim in claims if claim.purpose != "item")
    Claim.objects.all().delete()
    Feedback.objects.all().delete()
    assert [claim.purpose for claim in rate_all(queue)] == purposes


def test_a_repeated_pair_is_shown_the_other_way_round(agent: Agent) -> None:
    for number in range(20):
        make_pair(agent, number)
    claims = rate_all(make_queue(agent, rubric="pair", repeat_share=0.5))
    sides = {(claim.pair_id, claim.purpose): claim.swapped for claim in claims}
    repeats = [pair for pair, purpose in sides if purpose == "repeat"]
    assert repeats
    assert all(sides[pair, "item"] != sides[pair, "repeat"] for pair in repeats)
    assert {claim.feedback.choice for claim in claims if claim.feedback} == {"left", "right"}


# --- how much and how fast --------------------------------------------------------------------------------------------


def test_progress_counts_what_is_done_and_what_is_left(agent: Agent, answers: list[Trace], monkeypatch) -> None:
    queue = make_queue(agent)
    write.rate(answers[0], rater=ALICE, scale="thumb", value=1, source="test")
    vote(ask(queue), value=1)
    vote(ask(queue), "skip")
    assert progress(queue, ALICE).text == "1 of 5"
    monkeypatch.setattr("rl.queues.votes.COUNTED", 3)
    assert progress(queue, ALICE).text == "1 of 3+"


def test_progress_says_how_fast_it_goes(agent: Agent, answers: list[Trace]) -> None:
    queue = make_queue(agent)
    for minute in range(3):
        claim = vote(ask(queue), value=1)
        Claim.objects.filter(pk=claim.pk).update(decided_at=timezone.now() - timedelta(minutes=3 - minute))
    assert progress(queue, ALICE).text == "3 of 6 · 1 a minute · about 3 min left"


@pytest.mark.django_db(transaction=True)
def test_raters_at_once_never_get_the_same_item_and_lose_none(agent: Agent) -> None:
    for number in range(24):
        make_trace(agent, f"question {number}")
    queue = make_queue(agent, raters_per_item=1)
    problems: list[BaseException] = []

    def work(rater: str) -> None:
        try:
            rate_all(queue, rater)
        except BaseException as error:
            problems.append(error)
        finally:
            connection.close()

    threads = [threading.Thread(target=work, args=(f"rater {number}",)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []
    assert Claim.objects.filter(state="decided").values("trace").distinct().count() == Claim.objects.count() == 24
    assert Feedback.objects.filter(is_current=True).count() == 24
