"""What the plan calls ready passes the dry run, whatever kind of data an agent has."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from rl.collect.feedback.write import compare, correct
from rl.dataset_builder import DataOptions, training_plan
from rl.models import Agent
from rl.runs.dry_run import require_data
from rl.runs.run import RunOptions
from tests.conftest import make_trace
from tests.dataset_builder.ratings import rate, rate_prompts, rated

pytestmark = pytest.mark.django_db
COUNT = 30


def scored(*values: float, scale: str = "thumb", each: int = 1) -> Callable[[Agent], None]:
    """Answers, ``each`` to a prompt, with these ratings in turn."""

    def fill(agent: Agent) -> None:
        for number in range(COUNT):
            trace = make_trace(agent, f"Question {number // each}?", f"Answer {number}.")
            rate(trace, values[number % len(values)], "alice", scale)

    return fill


def rewarded(*values: float, each: int = 1) -> Callable[[Agent], None]:
    def fill(agent: Agent) -> None:
        for number in range(COUNT):
            reward = values[number % len(values)]
            make_trace(agent, f"Question {number // each}?", f"Answer {number}.", reward=reward)

    return fill


def picked(choice: str) -> Callable[[Agent], None]:
    def fill(agent: Agent) -> None:
        for number in range(COUNT):
            one, other = (make_trace(agent, f"Question {number}?", f"{text} {number}.") for text in ("Yes", "No"))
            compare(one, other, choice=choice, rater="alice", source="test")

    return fill


def pairs(agent: Agent) -> None:
    rate_prompts(agent, COUNT)


def edited(agent: Agent) -> None:
    for number in range(COUNT):
        correct(make_trace(agent, f"Question {number}?"), text=f"Better {number}.", rater="alice", source="test")


def liked_and_rewarded_alike(agent: Agent) -> None:
    scored(1)(agent)
    agent.traces.update(reward=0.75)


def rewarded_beside_likes(agent: Agent) -> None:
    scored(1)(agent)
    make_trace(agent, "Another?", "Other.", reward=0.25)


def two_raters_disagree(agent: Agent) -> None:
    for number in range(COUNT):
        trace = make_trace(agent, f"Question {number}?", f"Answer {number}.")
        rate(trace, 1, "alice")
        rate(trace, 0, "bob")


def empty_answers(agent: Agent) -> None:
    for number in range(COUNT):
        rated(agent, f"Question {number}?", "", number % 2)


FAMILIES: dict[str, Callable[[Agent], None]] = {
    "liked": scored(1),
    "disliked": scored(0),
    "liked, several answers to a prompt": scored(1, each=3),
    "in the middle": scored(3, scale="stars"),
    "four or five stars": scored(4, 5, scale="stars"),
    "one or two stars": scored(1, 2, scale="stars"),
    "both ways, one answer to a prompt": scored(1, 0),
    "pairs": pairs,
    "picks": picked("left"),
    "ties": picked("tie"),
    "both bad": picked("both_bad"),
    "edits": edited,
    "equal rewards": rewarded(0.75),
    "equal rewards in groups": rewarded(0.75, each=2),
    "rewards": rewarded(0.2, 0.9),
    "rewards in groups": rewarded(0.2, 0.9, each=2),
    "liked and rewarded alike": liked_and_rewarded_alike,
    "liked, and one reward": rewarded_beside_likes,
    "two raters disagree": two_raters_disagree,
    "empty answers": empty_answers,
    "nothing": lambda agent: None,
}
READY = {"liked": [], "disliked": [], "equal rewards": ["reward"], "pairs": ["mpo", "dpo", "kto", "reward_model"]}
TRAINED = ("mpo", "dpo", "kto", "sft", "grpo", "reward_model")


@pytest.mark.parametrize("family", FAMILIES)
def test_what_is_ready_or_advised_is_not_refused(agent: Agent, data_dir, family: str):
    FAMILIES[family](agent)
    plan = training_plan(agent)
    ready = [each.method for each in plan.methods if each.ready]
    assert ready == READY.get(family, ready)
    assert plan.advice.method in ("", *ready)
    for method in TRAINED:
        if method in ready:
            config = agent.training_config(method)
            config = replace(config, rollouts="offline") if method == "grpo" else config  # as its advice says
            require_data(agent, config, RunOptions(data=DataOptions()), method)
