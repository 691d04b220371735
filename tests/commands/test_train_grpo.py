import json

import pytest
from django.core.management import CommandError, call_command

from rl.models import Agent, TrainingRun
from tests.commands.site import Site

pytestmark = pytest.mark.process


VOWELS = {"CUSTOM_REWARDS": "vowels=tests.commands.rewards.Vowels"}
TRAIN = ("train_grpo", "--agent", "support-chat")
QUICK = ("--max-steps", "3", "--num-generations", "4", "--max-new-tokens", "8")


@pytest.mark.slow
def test_generated_answers_and_their_rewards_lead_to_a_version_that_the_gate_has_judged(site: Site):
    document = site.json(*TRAIN, *QUICK, "--rewards", "vowels", **VOWELS)
    evaluation = document["evaluation"]
    assert (document["version"], document["steps"], evaluation["measure"]) == ("v1", 3, "reward")
    assert evaluation["prompts"] > 10
    assert 0 < evaluation["models"]["base"]["reward"]["value"] < 1
    assert site.query("SELECT method, train_rows > 50 FROM rl_trainingset") == [("prompts", 1)]
    [(points,)] = site.query('SELECT "values" FROM rl_metricpoint ORDER BY step DESC LIMIT 1')
    assert {"reward", "reward_std", "kl", "entropy", "completion_length", "vowels"} <= json.loads(points).keys()
    again = site.run("evaluate_model", "--agent", "support-chat", **VOWELS).stdout
    assert "Mean reward of the answers to held-out prompts, support-chat v1" in again
    assert "gate: " in again


@pytest.mark.slow
def test_stored_answers_are_learned_from_without_generating(site: Site):
    site.change("UPDATE rl_trace SET reward = CASE WHEN external_id LIKE '%a' THEN 0.9 ELSE 0.1 END")
    document = site.json(*TRAIN, "--rollouts", "offline", "--num-generations", "2", "--max-steps", "6")
    assert document["steps"] == 6
    assert document["evaluation"]["models"]["base"]["accuracy"]["value"] >= 0
    assert site.query("SELECT method FROM rl_trainingset") == [("grpo",)]


def test_the_dry_run_counts_prompts_and_the_tokens_that_are_to_be_generated(site: Site):
    document = site.json(*TRAIN, "--dry-run", "--rewards", "vowels", "--max-new-tokens", "40", **VOWELS)
    assert document["data"]["train_rows"] > 50
    assert document["tokens"]["answer"] == {"max": 40}
    assert document["estimate"]["seconds"] > 0
    assert "rows to train on" in site.run(*TRAIN, "--dry-run", "--rewards", "vowels", **VOWELS).stdout


def test_an_agent_without_a_reward_that_applies_exits_with_3_before_anything_is_loaded(site: Site):
    for more in ((), ("--dry-run",)):
        result = site.run(*TRAIN, *more, expect=3)
        assert "no reward applies to any of the 20 newest answers of support-chat" in result.stderr
        assert "loading the base model" not in result.stderr


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--rewards", "polite"), "unknown reward 'polite'; known: code_execution"),
        (("--rewards", "feedback"), "the reward feedback needs a stored answer"),
        (("--vllm-server", "http://localhost:8000"), "the package vllm is not installed here"),
        (("--rollouts", "offline", "--rewards", "efficiency"), "--rewards is for answers that are generated"),
        (("--num-generations", "1"), "num_generations must be a number from 2 to 64"),
    ],
)
def test_what_cannot_be_asked_for_is_refused_and_makes_no_run(agent: Agent, data_dir, options, told: str):
    with pytest.raises(CommandError, match=told) as refusal:
        call_command(*TRAIN, *options)
    assert refusal.value.returncode == 2
    assert not TrainingRun.objects.exists()
