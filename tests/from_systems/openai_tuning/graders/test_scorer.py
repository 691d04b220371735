"""A grader rewards the answers of a run."""

import json
from pathlib import Path
from typing import Any

import pytest

from rl.base.errors import RewardFailed, UsageError
from rl.config import GRPOConfig
from rl.data_formatter.fresh import fresh_trace
from rl.dataset_builder import DataOptions
from rl.from_systems.openai_tuning.graders import GraderInvalid, GraderScorer
from rl.models import Agent
from rl.scoring.rollouts import AgentScorer, check_rollouts, require_rewards, scorer_of_run
from tests.conftest import make_trace
from tests.from_systems.openai_tuning.graders.graders import Json, multi, similarity, string_check

OFFLINE = GRPOConfig().with_overrides({"rollouts": "offline"})
GRADER = {"openai": string_check()}


def answer(text: str, **item: Any) -> Any:
    return fresh_trace({"prompt": [{"role": "user", "content": "Where?"}], "details": {"item": item}}, text)


def test_it_scores_by_the_fields_of_the_row():
    score = GraderScorer(string_check())(answer("Bern", answer="Bern"))
    assert (score.value, score.components) == (1.0, {"right": 1.0})
    both = GraderScorer(multi("(a + b) / 2", a=string_check(), b=similarity("rouge_1")))
    score = both(answer("in Bern", answer="Bern"))
    assert score.value == pytest.approx(1 / 3)
    assert score.components == {"a": 0.0, "b": pytest.approx(2 / 3)}


def test_a_fault_of_the_answer_is_worth_nothing_and_another_is_no_reward():
    json_city = string_check(input="{{ sample.output_json.city }}")
    assert GraderScorer(json_city)(answer("Bern", answer="Bern")).value == 0
    assert GraderScorer(string_check())(answer("Bern")).value is None


def test_a_reward_that_is_not_from_0_to_1_is_refused():
    with pytest.raises(
        RewardFailed, match="reward all: gave 3; a reward is a number from 0 to 1: let the grader scale it"
    ):
        GraderScorer(multi("3 * a", a=string_check()))(answer("Bern", answer="Bern"))


@pytest.mark.django_db
class TestOfARun:
    def test_its_options_say_who_rewards(self, agent):
        assert scorer_of_run(agent, {"grader": GRADER}) == GraderScorer(string_check())
        assert scorer_of_run(agent, {"grader": {}, "rewards": "x"}) == AgentScorer(agent.name, "x")

    def test_a_grader_needs_no_rewards_of_the_agents(self, agent):
        agent.reward_weights = {"format_compliance": 0}
        check_rollouts(agent, "grpo", GRPOConfig(), "", "", GRADER)
        require_rewards(agent, "", GRADER)

    @pytest.mark.parametrize(
        ("config", "rewards", "grader", "reason"),
        [
            (GRPOConfig(), "format_compliance", GRADER, "leave out --rewards and --reward-model"),
            (OFFLINE, "", GRADER, "a grader is for answers that are generated while training"),
            (GRPOConfig(), "", {"gemini": {}}, "unknown form of graders 'gemini'; known: openai"),
            (GRPOConfig(), "", {"openai": {"type": "string_check"}}, r"grader\.name"),
        ],
    )
    def test_what_cannot_reward_is_refused_before_there_is_a_run(self, agent, config, rewards, grader: Json, reason):
        with pytest.raises(UsageError, match=reason):
            check_rollouts(agent, "grpo", config, rewards, "", grader)


def test_a_wrong_grader_is_refused_when_the_scorer_is_made():
    with pytest.raises(GraderInvalid):
        GraderScorer(string_check(operation="is"))


@pytest.mark.learn
@pytest.mark.slow
def test_grpo_by_a_grader_makes_rewarded_answers_likelier(answering_base: Path, tmp_path: Path):
    """Measured with seeds 1 to 3: 4.0 to 4.4 nats."""
    from rl.base.records import silent
    from rl.training import grpo
    from tests.training import answering, test_grpo

    thanks = string_check(operation="like", reference="{{ item.polite }}")
    rows = [answering.question(number, item={"polite": "Thank"}) for number in range(12)]
    learning = {"seed": 1, "epochs": 2.0, "batch_size": 16, "num_generations": 8}
    result = grpo.train(test_grpo.job(answering_base, tmp_path, rows, scorer=GraderScorer(thanks), **learning), silent)
    assert test_grpo.gain(answering_base, result) > test_grpo.MARGIN


@pytest.mark.learn
@pytest.mark.slow
@pytest.mark.django_db
def test_a_run_is_rewarded_by_its_grader_from_the_first_answer_to_the_verdict(data_dir, answering_base: Path):
    from rl.base.records import silent
    from rl.runs import run as runs
    from rl.runs.processes.launch import _describe_scorer, _make_scorer
    from rl.runs.terms import read_terms
    from tests.training.test_grpo import SHORT

    agent = Agent.objects.create(name="polite", base_model=str(answering_base), reward_weights={"efficiency": 0})
    for number in range(40):
        make_trace(agent, f"Question number {number}?", "Perhaps.", details={"item": {"polite": "Thank"}})
    grader = {"openai": string_check(operation="like", reference="{{ item.polite }}")}
    options = runs.RunOptions(data=DataOptions(val_split=0.25), grader=grader)
    config = GRPOConfig().with_overrides({**SHORT, "max_steps": 2})
    run = runs.create(agent, method_name="grpo", config=config, options=options)
    scorer = read_terms(run).scorer
    assert _make_scorer(json.loads(json.dumps(_describe_scorer(scorer)))) == scorer, "for other processes"
    assert run.claim()
    evaluation = runs.execute(run, silent)
    assert evaluation.report["measure"] == "reward"
    assert {reward for row in evaluation.report["compared"] for reward in row["rewards"]} <= {0.0, 1.0}
    points = [point.values for point in run.metric_points.all()]
    assert [point["reward_right"] for point in points] == [point["reward"] for point in points]
