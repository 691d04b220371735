import random
from pathlib import Path

import pytest

from rl import auto_labels
from rl.auto_labels import learning
from rl.auto_labels.learning import read_opinions
from rl.base.errors import BadFile, NotEnoughData
from rl.collect.feedback.write import compare, correct, rate
from rl.dataset_builder import is_held_out
from rl.judge import head
from rl.judge.labels import Answers
from rl.models import Agent, LabelModel, prompt_key
from tests.auto_labels.labelled import make_labelled, make_preferences
from tests.conftest import make_trace


def test_a_label_weighs_by_how_many_more_raters_agree_with_it(agent: Agent) -> None:
    for number, votes in enumerate([[1], [1, 1, 0], [0, 0], [1] * 9, [1, 0]]):
        trace = make_trace(agent, f"question {number}", f"answer {number}")
        for rater, value in enumerate(votes):
            rate(trace, rater=f"user:{rater}", scale="thumb", value=value, source="test")
    answers = Answers()
    read = read_opinions(agent, answers)
    weights = {answers.conversations[opinion.answer][1]: (opinion.value, opinion.weight) for opinion in read}
    assert weights == {"answer 0": (1, 1), "answer 1": (1, 1), "answer 2": (0, 2), "answer 3": (1, 3)}
    assert {opinion.other for opinion in read} == {None}


def test_of_picks_and_edits_the_better_text_stands_first(agent: Agent) -> None:
    left, right = make_trace(agent, response="left"), make_trace(agent, response="right")
    common = {"rater": "user:alice", "source": "test"}
    compare(left, right, choice="right", **common)
    compare(right, make_trace(agent, response="other"), choice="tie", **common)
    compare(right, make_trace(agent, response="right"), choice="left", **common)
    correct(left, text="better", **common)
    answers = Answers()
    read = read_opinions(agent, answers)
    texts = {(answers.conversations[o.answer][1], answers.conversations[o.other or 0][1]) for o in read}
    assert texts == {("right", "left"), ("better", "left")}
    assert {opinion.prompt for opinion in read} == {prompt_key(left.prompt)}


def test_the_newest_count_and_neither_kind_crowds_out_the_other(agent: Agent, monkeypatch) -> None:
    monkeypatch.setattr(learning, "MOST_ROWS", 8)
    labelled = make_labelled(agent, 20)
    make_preferences(agent, 2)
    answers = Answers()
    read = read_opinions(agent, answers)
    assert [opinion.other is None for opinion in read] == [True] * 6 + [False] * 2
    assert {answers.conversations[o.answer][1] for o in read[:6]} == {trace.response for trace in labelled[-6:]}
    make_preferences(agent, 20)
    assert [opinion.other is None for opinion in read_opinions(agent, Answers())] == [True] * 4 + [False] * 4


pytestmark = [pytest.mark.learn, pytest.mark.usefixtures("data_dir")]


def test_it_learns_what_people_like_and_says_how_often_it_is_right(agent: Agent) -> None:
    traces = make_labelled(agent, 120)
    learned = auto_labels.learn(agent)
    model = learned.model
    held_out = sum(is_held_out(agent.name, prompt_key(trace.prompt), 0.2) for trace in traces)
    assert (model.heldout_labels, model.labels) == (held_out, 120 - held_out)
    assert model.heldout_accuracy == 1.0
    assert 0.5 <= model.majority_share < 0.8
    assert sum(one["count"] for one in model.calibration) == held_out
    assert learned.preferences is not None
    assert learned.preferences.as_dict() == {"learned": 0, "held_out": 0, "accuracy": None}
    stored = head.load(model.path)
    assert stored.base_model == agent.base_model
    assert (stored.weights == learned.head.weights).all()


def test_a_taste_that_no_word_gives_away_is_learned_better_than_the_commoner_label(agent: Agent) -> None:
    words, rng = ["parcel", "warehouse", "friday", "arrives", "soon", "and", "with", "you"], random.Random(1)
    for number in range(120):
        length = rng.randint(3, 40)
        trace = make_trace(agent, f"Where is parcel {number}?", " ".join(rng.choices(words, k=length)))
        rate(trace, rater="user:alice", scale="thumb", value=int(length < 20), source="test")
    model = auto_labels.learn(agent).model
    assert model.is_informative
    assert model.heldout_accuracy > model.majority_share + 0.2


def test_labels_that_follow_from_nothing_give_a_model_that_is_not_used(agent: Agent) -> None:
    for number in range(100):
        trace = make_trace(agent, f"question {number}", "always the same answer")
        rate(trace, rater="user:alice", scale="thumb", value=int(number % 3 > 0), source="test")
    learned = auto_labels.learn(agent)
    assert not learned.model.is_informative
    assert auto_labels.predictor(agent) is None
    with pytest.raises(NotEnoughData, match="no better than always saying the commoner one"):
        auto_labels.propose(learned)


def test_raters_who_disagree_count_by_their_mean_and_a_tie_not_at_all(agent: Agent) -> None:
    traces = make_labelled(agent, 100)
    for trace in traces[:4]:
        rate(trace, rater="user:bob", scale="thumb", value=int(trace in traces[1::2]), source="test")
    model = auto_labels.learn(agent).model
    assert model.labels + model.heldout_labels == 96


def test_picks_and_edited_answers_teach_too(agent: Agent, monkeypatch) -> None:
    monkeypatch.setattr(learning, "FEWEST_HELD_OUT", 2)
    make_labelled(agent, 40)
    make_preferences(agent, 60)
    learned = auto_labels.learn(agent)
    assert learned.preferences is not None
    assert learned.preferences.learned + learned.preferences.held_out == 60
    assert learned.preferences.held_out > 5
    assert learned.preferences.as_dict()["accuracy"] > 0.9


def test_too_few_labels_say_what_is_missing(agent: Agent) -> None:
    make_labelled(agent, 18)
    with pytest.raises(NotEnoughData, match="9 answers are labelled good and 9 bad; .*label more good and bad ones"):
        auto_labels.learn(agent)
    make_labelled(agent, 6, start=18)
    with pytest.raises(NotEnoughData, match="held-out prompts"):
        auto_labels.learn(agent)
    assert not LabelModel.objects.exists()


def test_a_dry_run_keeps_nothing(agent: Agent, data_dir: Path) -> None:
    make_labelled(agent, 100)
    auto_labels.learn(agent, dry_run=True)
    assert not LabelModel.objects.exists()
    assert list(data_dir.rglob("*.npz")) == []


@pytest.mark.parametrize("damage", [b"", b"PK\x03\x04 not a zip", b"\x80\x04]."])
def test_damaged_weights_are_one_clear_error(agent: Agent, damage: bytes) -> None:
    make_labelled(agent, 100)
    path = auto_labels.learn(agent).model.path
    path.write_bytes(damage)
    with pytest.raises(BadFile, match="not the weights of a judge"):
        auto_labels.predictor(agent)


def test_a_model_whose_weights_are_gone_is_passed_over(agent: Agent) -> None:
    make_labelled(agent, 100)
    older = auto_labels.learn(agent).model
    auto_labels.learn(agent).model.path.unlink()
    assert auto_labels.newest(agent) == older
