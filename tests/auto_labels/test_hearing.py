import pytest

from rl import auto_labels
from rl.auto_labels import hearing
from rl.auto_labels.hearing import balanced_accuracy
from rl.base.errors import NotEnoughData
from rl.collect.feedback.write import rate
from rl.models import Agent, FollowUpLabel, LabelModel
from tests.auto_labels.conversations import go_on, make_conversations
from tests.conftest import make_trace

pytestmark = [pytest.mark.learn, pytest.mark.usefixtures("data_dir")]
FOLLOW_UP = LabelModel.Reads.FOLLOW_UP


@pytest.fixture
def hearing_agent(agent: Agent) -> auto_labels.Learned:
    make_conversations(agent, 60)
    return auto_labels.learn_to_hear(agent)


def test_it_hears_in_the_next_message_how_good_the_answer_was(agent: Agent, hearing_agent, monkeypatch) -> None:
    monkeypatch.setattr(hearing, "CHUNK", 4)
    model = hearing_agent.model
    assert (model.reads, model.labels, model.heldout_accuracy, model.majority_share) == (FOLLOW_UP, 60, 1.0, 0.5)
    assert 0.8 < model.accuracy_low < 0.95
    traces = make_conversations(agent, 10, start=200, label=False)
    assert auto_labels.hear(hearing_agent, limit=3).at_least[0.5] == 3
    assert auto_labels.hear(hearing_agent).at_least[0.5] == 7
    assert dict(FollowUpLabel.objects.values_list("trace", "good")) == {t.pk: n % 2 == 0 for n, t in enumerate(traces)}
    assert auto_labels.hear(hearing_agent).at_least[0.5] == 0


def test_it_goes_on_where_nothing_was_said_since_and_leaves_rated_answers_alone(agent: Agent, hearing_agent) -> None:
    assert auto_labels.go_on(agent) is None  # of the answers themselves nothing was learned
    known = auto_labels.go_on(agent, reads=FOLLOW_UP)
    assert known is not None
    assert known.model == hearing_agent.model
    rated, *_ = make_conversations(agent, 3, start=300, label=False)
    rate(rated, rater="user:bob", scale="thumb", value=0, source="test")
    auto_labels.hear(known)
    assert FollowUpLabel.objects.count() == 2
    assert not FollowUpLabel.objects.filter(trace=rated).exists()


def test_a_dry_run_keeps_nothing(agent: Agent) -> None:
    make_conversations(agent, 60)
    make_conversations(agent, 2, start=200, label=False)
    assert auto_labels.hear(auto_labels.learn_to_hear(agent, dry_run=True), dry_run=True).at_least[0.5] == 2
    assert (LabelModel.objects.count(), FollowUpLabel.objects.count()) == (0, 0)


def test_messages_that_tell_nothing_are_not_heard(agent: Agent) -> None:
    for number in range(40):
        trace = make_trace(agent, f"Where is parcel {number}?", "On its way.")
        go_on(agent, trace, f"And parcel {number + 1}?")
        rate(trace, rater="user:alice", scale="thumb", value=number // 2 % 2, source="test")
    learned = auto_labels.learn_to_hear(agent)
    assert not learned.model.is_informative
    with pytest.raises(NotEnoughData, match="which may be chance"):
        auto_labels.hear(learned)


def test_too_few_rated_answers_with_a_next_message_are_counted(agent: Agent) -> None:
    make_conversations(agent, 8)
    with pytest.raises(NotEnoughData, match="4 answers with a next message are labelled good and 4 bad"):
        auto_labels.learn_to_hear(agent)


def test_whoever_always_says_the_commoner_label_is_right_in_one_half() -> None:
    accuracy = balanced_accuracy([(0.9, True)] * 90 + [(0.9, False)] * 10)
    assert accuracy.value == 0.5
    assert accuracy.low < 0.5 < accuracy.high
    assert balanced_accuracy([(0.9, True)] * 50 + [(0.1, False)] * 50).low > 0.9
