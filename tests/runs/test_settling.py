"""What a run chooses by its rows and its model is chosen once."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from rl.base.errors import RunConflict, UsageError
from rl.base.records import Report, silent
from rl.collect.feedback.write import compare, correct
from rl.config import DPOConfig, TrainingConfig, preset
from rl.dataset_builder import DataOptions, freeze, training_plan
from rl.management.training import _agree
from rl.models import Agent, Trace, TrainingRun, TrainingSet
from rl.runs.choosing import RunOptions
from rl.runs.dry_run import dry_run, require_data
from rl.runs.settling import foresee, repeats_for, settle_run
from rl.runs.terms import read_terms
from tests.conftest import make_trace
from tests.dataset_builder.ratings import rate, rate_prompts, rated
from tests.training.conftest import Listener

pytestmark = pytest.mark.django_db
DATA = DataOptions(min_samples=1, val_split=0)
OPTIONS = RunOptions(data=DATA)
CONFIG = {"hidden_size": 576, "num_hidden_layers": 30, "num_attention_heads": 9, "vocab_size": 49_152}


@pytest.fixture
def base(tmp_path: Path) -> str:
    """As much of a model as is read before it is loaded."""
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    (tmp_path / "model.safetensors").write_bytes(b"")
    (tmp_path / "tokenizer.json").write_text("{}")
    return str(tmp_path)


def running(agent: Agent, config: DPOConfig) -> TrainingRun:
    run = TrainingRun.objects.create(agent=agent, method="dpo", config=config.as_dict(), options=OPTIONS.as_dict())
    assert run.claim()
    return run


def settle(run: TrainingRun, frozen: TrainingSet, base_model: str, report: Report) -> TrainingConfig:
    return settle_run(run, replace(read_terms(run), base_model=base_model), frozen, report)


def test_new_agents_leave_the_numbers_to_the_rows(agent: Agent):
    assert (agent.preset, Agent(name="x", preset="cpu").training_config().learning_rate) == ("auto", 5e-5)
    assert "learning_rate" in agent.training_config("kto").automatic
    agent.training_overrides = {"learning_rate": 3e-4}
    assert "learning_rate" not in agent.training_config("kto").automatic


def test_a_run_stores_what_it_chose_and_does_not_choose_again(agent: Agent, data_dir, base: str):
    rate_prompts(agent, 39)
    run, listener = running(agent, agent.training_config()), Listener()
    settled = settle(run, freeze(agent, DATA), base, listener)
    assert (settled.learning_rate, settled.train_layers, settled.steps(39)) == (2e-4, 10, 60)
    assert "39 rows on a" in listener.log
    run.refresh_from_db()
    assert DPOConfig(**run.config) == settled
    rate_prompts(agent, 400, start=39)
    assert settle(run, freeze(agent, DATA), base, listener) == settled


@pytest.mark.parametrize(("keeps", "thinks"), [(True, False), (False, True)])
def test_a_run_of_answers_that_keep_to_a_form_is_one_without_thoughts(
    agent: Agent, data_dir, base: str, keeps: bool, thinks: bool
):
    agent.thinks, agent.keep_to_answers = True, keeps
    agent.answer_kind, agent.answer_values = "closed", ["Here.", "There."]
    agent.save()
    rate_prompts(agent, 4)
    run, listener = running(agent, agent.training_config()), Listener()
    assert run.config["thinks"]
    assert settle(run, freeze(agent, DATA), base, listener).thinks is thinks
    run.refresh_from_db()
    assert run.config["thinks"] is thinks
    assert ("does not think" in listener.log) is not thinks


def test_a_reward_model_reads_what_people_read(agent: Agent):
    agent.thinks = True
    assert agent.training_config("kto").thinks
    assert not agent.training_config("reward_model").thinks


@pytest.mark.database
def test_a_run_that_was_taken_over_stores_nothing(agent: Agent, data_dir, base: str):
    rate_prompts(agent, 4)
    run, frozen = running(agent, agent.training_config()), freeze(agent, DATA)
    TrainingRun.objects.filter(pk=run.pk).update(attempt=5)
    with pytest.raises(RunConflict, match="was taken over while its settings were chosen"):
        settle(run, frozen, base, silent)


@pytest.mark.learn
def test_the_size_of_a_model_of_the_hub_is_fetched_where_it_is_needed(
    agent: Agent, data_dir, monkeypatch: pytest.MonkeyPatch
):
    from rl.lm import hub

    def fail(*asked: str) -> None:
        raise OSError(f"no way to {asked}")

    monkeypatch.setattr(hub.huggingface_hub, "hf_hub_download", fail)
    rate_prompts(agent, 4)
    run, frozen = running(agent, agent.training_config()), freeze(agent, DATA)
    with pytest.raises(UsageError, match="cannot fetch nobody/has-this-model"):
        settle(run, frozen, "nobody/has-this-model", silent)
    run.config = agent.training_config("dpo", "cpu").as_dict()
    assert settle(run, frozen, "nobody/has-this-model", silent).automatic == ()


def test_the_dry_run_says_the_same(agent: Agent, data_dir, base: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("rl.runs.dry_run._characters_per_token", lambda *args: (4.0, False))
    rate_prompts(agent, 39)
    plan = dry_run(agent, agent.training_config(), RunOptions(data=DATA, base_model=base))
    assert plan.document["chosen"].endswith("6 passes (60 steps), learning rate 2e-4, the top 10 of 30 layers")
    assert plan.document["config"]["learning_rate"] == 2e-4
    assert plan.document["estimate"]["steps"] == 60
    cost = list(plan.tables.values())[-1]
    assert (cost["chosen"], cost["trained"]) == (plan.chosen, "an adapter of rank 16, by sigmoid")


def test_robust_reads_how_often_people_disagree(agent: Agent, data_dir, base: str):
    rate_prompts(agent, 10)
    for number, trace in enumerate(agent.traces.all()):
        rate(trace, number % 5 > 0 and trace.response.endswith("good."), "bob")
    robust = agent.training_config().with_overrides({"preference_loss": "robust"})
    assert repeats_for(agent, agent.training_config(), OPTIONS) is None
    assert repeats_for(agent, robust, OPTIONS).judgements == 20
    run, listener = running(agent, robust), Listener()
    settled = settle(run, freeze(agent, DATA), base, listener)
    assert isinstance(settled, DPOConfig)
    assert 0 < settled.label_smoothing == repeats_for(agent, robust, OPTIONS).flip_rate < 0.3
    assert "from 20 repeated ratings" in listener.log


def test_a_run_agrees_with_the_preset_that_left_it_the_choice(agent: Agent):
    settled = preset("auto").with_overrides({"learning_rate": 1e-4, "epochs": 6.0, "automatic": ()})
    run = running(agent, settled)
    assert _agree(preset("auto"), run)
    assert _agree(preset("auto").with_overrides({"learning_rate": 1e-4}), run)
    assert not _agree(preset("auto").with_overrides({"learning_rate": 2e-4}), run)
    assert not _agree(preset("default"), run)


def test_disliked_and_repeated_answers_take_no_steps_from_those_that_are_imitated(agent: Agent, data_dir, base: str):
    for number in range(60):
        rated(agent, f"Question {number}?", "yes" if number % 2 else "no", value=number < 10)
    rated(agent, "Question 1?", "no", 0)
    rated(agent, "Question 1?", "perhaps", 0)
    config = agent.training_config("mpo")
    run = TrainingRun.objects.create(agent=agent, method="mpo", config=config.as_dict(), options=OPTIONS.as_dict())
    assert run.claim()
    frozen, listener = freeze(agent, DATA, method="mpo"), Listener()
    settled = settle(run, frozen, base, listener)
    assert (frozen.train_rows, frozen.stats["imitated"]) == (61, 10)
    assert "10 rows on a" in listener.log
    assert settled.steps(10) >= 40


def test_a_plan_foresees_the_numbers_also_where_the_model_is_none(agent: Agent, data_dir, base: str):
    rate_prompts(agent, 39)
    agent.base_model = base
    assert "39 rows on a 216M model: 4 rows a step" in foresee(agent, training_plan(agent))
    agent.base_model = "/not/a/model"
    assert "39 rows on a model of unknown size" in foresee(agent, training_plan(agent))
    agent.preset = "cpu"
    assert foresee(agent, training_plan(agent)) == ""


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


def broken_off(*values: float) -> Callable[[Agent], None]:
    def rate_them(agent: Agent) -> None:
        scored(*values)(agent)
        Trace.objects.update(details={"finish_reason": "length"})

    return rate_them


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
    "liked and broken off": broken_off(1),
    "broken off, both ways": broken_off(1, 0),
    "nothing": lambda agent: None,
}
READY = {
    "liked": ["sft"],
    "disliked": [],
    "equal rewards": ["reward", "sft"],
    "pairs": ["mpo", "dpo", "kto", "reward_model", "sft"],
    "liked and broken off": [],
}
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
