"""What users wrote next, as far as it teaches."""

import pytest

from rl.collect.feedback.write import rate, retract
from rl.dataset_builder import DataOptions, freeze
from rl.dataset_builder.read.follow_ups import MOST_WEIGHT, SOURCE, read_reviews
from rl.models import Agent, FollowUpLabel, LabelModel, Trace
from tests.conftest import make_trace
from tests.dataset_builder.ratings import all_rows, questions

pytestmark = pytest.mark.usefixtures("data_dir")


@pytest.fixture
def model(agent: Agent) -> LabelModel:
    return LabelModel.objects.create(
        agent=agent,
        reads=LabelModel.Reads.FOLLOW_UP,
        labels=60,
        heldout_labels=60,
        heldout_accuracy=0.8,
        accuracy_low=0.7,
        majority_share=0.5,
    )


def hear(model: LabelModel, good: bool, confidence: float = 0.9, **fields) -> Trace:
    number = Trace.objects.count()
    trace = make_trace(model.agent, f"Heard {number}?", f"Answer {number}.", **fields)
    later = make_trace(model.agent, f"Thanks for {number}.")
    FollowUpLabel.objects.create(trace=trace, next_trace=later, label_model=model, good=good, confidence=confidence)
    return trace


def review(model: LabelModel, agreed: int, disagreed: int = 0) -> None:
    for number in range(agreed + disagreed):
        good = number % 2 == 0
        value = good if number < agreed else not good
        rate(hear(model, good), rater="user:alice", scale="thumb", value=int(value), source=SOURCE)


def rows(agent: Agent, method: str) -> dict[str, dict]:
    """The answers that nobody rated."""
    options = DataOptions(min_samples=1, val_split=0)
    return {
        (row.get("chosen") or row.get("rejected") or row.get("completion"))[0]["content"]: row
        for row in all_rows(freeze(agent, options, method=method))
        if row["label_source"] != "person"
    }


@pytest.mark.parametrize(
    ("agreed", "disagreed", "weight"), [(9, 0, 0), (10, 0, 0.3), (9, 1, 0.1917), (8, 2, 0), (60, 6, MOST_WEIGHT)]
)
def test_ten_have_to_be_seen_and_the_weight_is_what_people_agreed_with(model, agreed, disagreed, weight) -> None:
    review(model, agreed, disagreed)
    reviews = read_reviews(model.agent)
    assert (reviews.agreed, reviews.seen) == (agreed, agreed + disagreed)
    assert reviews.weight == pytest.approx(weight, abs=1e-4)


def test_a_rating_of_the_answer_alone_is_no_review_and_one_taken_back_neither(model: LabelModel) -> None:
    review(model, 10)
    rate(hear(model, True), rater="user:bob", scale="thumb", value=1, source="trace_page")
    assert read_reviews(model.agent).seen == 10
    retract(model.agent.feedback.filter(source=SOURCE).first(), rater="user:alice", source="test")
    assert (read_reviews(model.agent).seen, read_reviews(model.agent).weight) == (9, 0)


def test_nothing_counts_where_the_newest_model_may_be_guessing(model: LabelModel) -> None:
    review(model, 20)
    LabelModel.objects.update(accuracy_low=0.49)
    assert read_reviews(model.agent).weight == 0


@pytest.mark.database
def test_what_was_heard_weighs_little_and_teaches_only_where_rows_have_weights(agent: Agent, model: LabelModel) -> None:
    review(model, 10)
    good, bad, unsure = hear(model, True), hear(model, False, 0.8), hear(model, True, 0.55)
    rewarded = hear(model, True, reward=0.0)
    heard = rows(agent, "mpo")
    assert (heard[good.response]["label_source"], heard[good.response]["weight"]) == ("follow_up", 0.24)
    assert heard[bad.response]["rejected"]
    assert heard[bad.response]["weight"] == 0.18
    assert unsure.response not in heard
    assert heard[rewarded.response]["label_source"] == "reward"
    assert set(rows(agent, "kto")) == set(rows(agent, "sft")) == {rewarded.response}


def test_nothing_is_learned_before_ten_were_seen(agent: Agent, model: LabelModel) -> None:
    review(model, 9)
    hear(model, True)
    assert rows(agent, "mpo") == {}


def test_a_persons_label_goes_before_it(agent: Agent, model: LabelModel) -> None:
    review(model, 10)
    trace = hear(model, True)
    rate(trace, rater="user:bob", scale="thumb", value=0, source="test")
    assert rows(agent, "mpo") == {}


def test_held_out_rows_are_what_people_said(agent: Agent, model: LabelModel) -> None:
    review(model, 10)
    aside, kept = (questions(agent, held_out=held_out)[0] for held_out in (True, False))
    for question, answer in ((aside, "Set aside."), (kept, "Kept.")):
        trace = make_trace(agent, question, answer)
        FollowUpLabel.objects.create(trace=trace, next_trace=trace, label_model=model, good=True, confidence=0.9)
    frozen = freeze(agent, DataOptions(min_samples=1, val_split=0.2), method="mpo")
    assert "Kept." in str(all_rows(frozen))
    assert "Set aside." not in str(all_rows(frozen))
    assert any("next message" in reason for reason in frozen.stats["skipped"])
