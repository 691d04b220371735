import json

import pytest
from django.core.management import CommandError, call_command

from rl.models import Agent
from tests.commands.site import Site

pytestmark = pytest.mark.process


VOWELS = {"CUSTOM_REWARDS": "vowels=tests.commands.rewards.Vowels"}
TRAIN = ("train_ppo", "--agent", "support-chat")
QUICK = ("--max-steps", "3", "--batch-size", "8", "--max-new-tokens", "8")


@pytest.mark.slow
def test_rewarded_answers_lead_to_a_version_that_the_gate_has_judged(site: Site):
    document = site.json(*TRAIN, *QUICK, "--rewards", "vowels", "--ppo-epochs", "1", **VOWELS)
    evaluation = document["evaluation"]
    assert (document["version"], document["steps"], evaluation["measure"]) == ("v1", 3, "reward")
    assert evaluation["prompts"] > 10
    assert site.query("SELECT method, train_rows > 50 FROM rl_trainingset") == [("prompts", 1)]
    [(points,)] = site.query('SELECT "values" FROM rl_metricpoint ORDER BY step DESC LIMIT 1')
    expected = {"reward", "reward_std", "kl", "kl_coef", "policy_loss", "value_loss", "entropy", "vowels"}
    assert expected <= json.loads(points).keys()
    assert (site.data / "models" / "support-chat" / "v1" / "adapter" / "adapter_model.safetensors").is_file()


@pytest.mark.slow
def test_a_reward_model_rewards_instead(site: Site):
    few = ("--max-steps", "2", "--val-split", "0")
    site.run("train_reward_model", "--agent", "support-chat", *few)
    site.run(*TRAIN, *QUICK, "--ppo-epochs", "1", "--reward-model", "reward-v1", *few)
    [(points,)] = site.query('SELECT "values" FROM rl_metricpoint ORDER BY run_id DESC, step DESC LIMIT 1')
    assert 0 < json.loads(points)["reward_model"] < 1
    assert site.query("SELECT state, method FROM rl_trainingrun ORDER BY id") == [
        ("succeeded", "reward_model"),
        ("succeeded", "ppo"),
    ]


def test_the_dry_run_counts_prompts_and_batches(site: Site):
    document = site.json(*TRAIN, *QUICK, "--dry-run", "--rewards", "vowels", "--kl-horizon", "500", **VOWELS)
    assert document["data"]["train_rows"] > 50
    assert document["tokens"]["answer"] == {"max": 8}
    assert document["estimate"]["steps"] == 3
    assert document["config"]["kl_horizon"] == 500


def test_an_agent_without_a_reward_that_applies_exits_with_3_before_anything_is_loaded(site: Site):
    for more in ((), ("--dry-run",)):
        result = site.run(*TRAIN, *more, expect=3)
        assert "no reward applies to any of the 20 newest answers of support-chat" in result.stderr
        assert "loading the base model" not in result.stderr


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--reward-model", "v9"), "there is no reward model v9: no such folder, and support-chat has no such version"),
        (("--rewards", "vowels", "--reward-model", "v9"), "two ways to reward an answer: choose one"),
        (("--cliprange", "-1"), "cliprange must be a number from 0 to 10"),
        (("--mini-batch-size", "32"), "mini_batch_size is a part of batch_size, 32 cannot be more than 8"),
    ],
)
def test_what_cannot_be_is_refused(agent: Agent, data_dir, settings, options: tuple[str, ...], told: str):
    settings.CUSTOM_REWARDS = {"vowels": VOWELS["CUSTOM_REWARDS"].removeprefix("vowels=")}
    with pytest.raises(CommandError, match=told) as refusal:
        call_command(*TRAIN, "--batch-size", "8", *options)
    assert refusal.value.returncode == 2
