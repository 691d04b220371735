import pytest
from django.utils import timezone

from rl.collect.feedback.write import compare, rate
from rl.models import Agent, Claim, GoldItem, ModelVersion, Quarantine, RatingQueue, Trace
from rl.trust.reading import report, version_table
from tests.conftest import make_trace

pytestmark = pytest.mark.django_db


def decide(queue: RatingQueue, trace: Trace, rater: str, decision: dict, **fields) -> Claim:
    now = timezone.now()
    values = {"state": "decided", "expires_at": now, "decided_at": now, "decision": decision, **fields}
    return Claim.objects.create(queue=queue, trace=trace, rater=rater, **values)


@pytest.fixture
def queue(agent: Agent) -> RatingQueue:
    return RatingQueue.objects.create(agent=agent, name="returns", rubric="thumbs")


@pytest.fixture
def traces(agent: Agent) -> list[Trace]:
    return [make_trace(agent, f"question {number}") for number in range(10)]


def test_two_raters_have_agreement_kappa_and_alpha(queue: RatingQueue, traces: list[Trace]):
    """Example A of Krippendorff (2011)."""
    for trace, first, second in zip(traces, "0100000010", "1110010000", strict=True):
        decide(queue, trace, "user:alice", {"value": float(first)})
        decide(queue, trace, "user:bob", {"value": float(second)})
    figures = report(queue)
    assert (figures.items, figures.shared, figures.percent) == (10, 10, 0.6)
    assert figures.alpha == pytest.approx(0.095, abs=5e-4)
    assert figures.kappa == pytest.approx(0.091, abs=5e-4)
    assert [rater.agreement for rater in figures.raters] == [0.6, 0.6]
    assert figures.disputed == 4


def test_gold_items_repeats_and_skips_count_apart(queue: RatingQueue, traces: list[Trace]):
    GoldItem.objects.create(queue=queue, trace=traces[0], value=1.0)
    GoldItem.objects.create(queue=queue, trace=traces[1], value=0.0)
    for trace in traces[:2]:
        decide(queue, trace, "user:alice", {"value": 1.0}, purpose="gold")
    decide(queue, traces[2], "user:alice", {"value": 0.0})
    decide(queue, traces[2], "user:alice", {"value": 0.0}, purpose="repeat")
    decide(queue, traces[3], "user:alice", {}, state="skipped")
    Quarantine.objects.create(agent=queue.agent, rater="user:alice", reason="why")
    [alice] = report(queue).raters
    assert (alice.ratings, alice.gold_right, alice.gold, alice.repeats_same, alice.repeats) == (1, 1, 2, 1, 1)
    assert alice.is_held
    assert alice.agreement is None
    assert alice.left is None


def test_whoever_always_takes_the_left_is_seen_through_swaps(agent: Agent, traces: list[Trace]):
    queue = RatingQueue.objects.create(agent=agent, name="pairs", rubric="pair")
    for number, trace in enumerate(traces[1:]):
        swapped = number % 2 == 0
        choice = {"choice": "right" if swapped else "left"}
        decide(queue, trace, "user:alice", choice, other_trace=traces[0], swapped=swapped)
    [alice] = report(queue).raters
    assert alice.left is not None
    assert (alice.left.value, alice.leans) == (1.0, True)


@pytest.mark.database
def test_an_item_is_settled_by_somebody_elses_rating(queue: RatingQueue, traces: list[Trace]):
    decide(queue, traces[0], "user:alice", {"value": 1.0})
    decide(queue, traces[0], "user:charlie", {"value": 0.0})
    [dispute] = report(queue).disputes
    assert dispute.values == (("user:alice", 1.0), ("user:charlie", 0.0))
    rate(traces[0], rater="user:charlie", scale="thumb", value=0, source="trace_page")
    assert report(queue).disputed == 1
    rate(traces[0], rater="user:bob", scale="thumb", value=1, source="trace_page")
    assert report(queue).disputed == 0


def test_a_queue_that_nobody_rated_has_no_figures(queue: RatingQueue):
    figures = report(queue)
    assert (figures.items, figures.percent, figures.kappa, figures.alpha, figures.raters) == (0, None, None, None, ())


def test_picks_between_a_version_and_the_base_model_make_a_table(agent: Agent):
    version = ModelVersion.objects.create(agent=agent, name="v286", base_model="tiny", feedback_count=1)
    for number in range(12):
        question = f"question {number}"
        new = make_trace(agent, question, "new", model_version=version, source="gateway")
        old = make_trace(agent, question, "old", source="gateway")
        unknown = make_trace(agent, question, "unknown")
        compare(old, new, choice="left" if number < 3 else "right", rater="user:alice", source="try_page")
        compare(new, unknown, choice="left", rater="user:alice", source="try_page")
    first, base = version_table(agent)
    assert (first.name, first.games, base.name) == (version.name, 12, "base")
    assert 0.6 < first.against_base.value < 0.75
    assert first.against_base.low < 0.5 < first.against_base.high


def test_without_picks_there_is_the_base_model_alone(agent: Agent):
    assert [standing.name for standing in version_table(agent)] == ["base"]
