from __future__ import annotations

import pytest

from rl.auto_labels import opinions
from rl.auto_labels.opinions import read_opinions
from rl.collect.feedback.write import compare, correct, rate
from rl.judge.labels import Answers
from rl.models import Agent, prompt_key
from tests.auto_labels.labelled import make_labelled, make_preferences
from tests.conftest import make_trace

pytestmark = [pytest.mark.learn, pytest.mark.django_db]


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
    monkeypatch.setattr(opinions, "MOST_ROWS", 8)
    labelled = make_labelled(agent, 20)
    make_preferences(agent, 2)
    answers = Answers()
    read = read_opinions(agent, answers)
    assert [opinion.other is None for opinion in read] == [True] * 6 + [False] * 2
    assert {answers.conversations[o.answer][1] for o in read[:6]} == {trace.response for trace in labelled[-6:]}
    make_preferences(agent, 20)
    assert [opinion.other is None for opinion in read_opinions(agent, Answers())] == [True] * 4 + [False] * 4
