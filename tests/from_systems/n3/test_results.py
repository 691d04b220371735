"""What a training leaves for N3's users: real trainings of the tiny model."""

import json
from dataclasses import fields
from pathlib import Path
from statistics import fmean

import pytest

from rl.base.errors import BadFile
from rl.base.records import silent
from rl.from_systems.n3 import policies
from rl.from_systems.n3.policies import FILE, TrainingResult
from rl.models import Agent, TrainingRun
from rl.runs import run as runs
from rl.versions import versions
from tests.web.api.conftest import Caller

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]
QUICK = {"maxSteps": 2, "batchSize": 4, "gradientAccumulation": 1, "loraR": 4}
NAMES = {
    "model_path",
    "reward_model_path",
    "feedback_count",
    "final_reward_mean",
    "final_reward_std",
    "training_steps",
    "reward_history",
    "kl_history",
    "loss_history",
}


@pytest.fixture
def scored(data_dir: Path, secret_key: str) -> Agent:
    """Thirty answers, scored by N3's call."""
    agent = Agent.objects.create(name="n3-agent", base_model="tiny", response_length=8)
    caller = Caller(secret_key)
    for number in range(30):
        body = {"prompt": f"Question {number}?", "response": f"Answer {number}.", "score": (number % 3) / 2}
        assert caller.post(f"/api/feedback/{agent}", {**body, "runId": "r1"}).status_code == 200
    return agent


def trained(agent: Agent, **body: object) -> TrainingRun:
    method, config, options = policies.settings_for(agent, {**QUICK, **body})
    run = runs.create(agent, method_name=method, config=config, options=options)
    assert run.claim()
    runs.execute(run, silent)
    run.refresh_from_db()
    return run


@pytest.mark.learn
def test_a_reward_model_and_a_policy_are_trained_on_scores_and_load_as_n3_documents(
    scored: Agent, data_dir: Path, secret_key: str
):
    reward_model = trained(scored, method="reward_model")
    assert reward_model.version.name.startswith("reward-v")
    run = trained(scored, method="ppo", batchSize=2, miniBatchSize=2, maxNewTokens=8)
    document = Caller(secret_key).get(f"/api/policies/{scored}/runs/{run.pk}/").json()
    result = TrainingResult.load(versions.version_directory(run.version) / FILE)
    assert {field.name for field in fields(result)} == NAMES
    assert document["rewardModelPath"] == result.reward_model_path
    assert document["rewardModelPath"] == str(versions.weights_directory(reward_model.version))
    assert [len(history) for history in (result.reward_history, result.kl_history, result.loss_history)] == [2, 2, 2]
    assert result.final_reward_mean == pytest.approx(fmean(result.reward_history))
    assert (document["rewardModel"], -1 <= document["rewardMean"] <= 1) == (reward_model.version.name, True)
    assert (document["trainingSteps"], result.training_steps) == (2, 2)
    assert_answers(document["modelPath"])


@pytest.mark.learn
def test_a_method_without_rewards_is_rewarded_by_the_next_reward_model_as_all_are(scored: Agent, data_dir: Path):
    before = trained(scored, method="mpo")
    trained(scored, method="reward_model", maxSteps=1)
    after = trained(scored, method="mpo")
    listed = policies.as_policies(list(scored.versions.filter(run__method="mpo")))
    assert len({policy["metrics"]["rewardModel"] for policy in listed}) == 1
    assert all(-1 <= policy["metrics"]["rewardMean"] <= 1 for policy in listed)
    files = [TrainingResult.load(versions.version_directory(run.version) / FILE) for run in (before, after)]
    assert (files[0].final_reward_mean, files[1].reward_history) == (None, [])
    assert f"{files[1].final_reward_mean:.3f} ± {files[1].final_reward_std:.3f}"


def assert_answers(folder: str) -> None:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(folder)
    chat = [{"role": "user", "content": "Question 1?"}]
    ids = tokenizer.apply_chat_template(chat, add_generation_prompt=True, return_tensors="pt", return_dict=True)
    assert model.generate(**ids, max_new_tokens=2).shape[1] > ids["input_ids"].shape[1]


@pytest.mark.database
@pytest.mark.learn
def test_an_agent_that_n3_does_not_score_gets_no_file_of_its(scored: Agent, data_dir: Path):
    scored.feedback.update(source="api")
    run = trained(scored, method="kto")
    assert not (versions.version_directory(run.version) / FILE).exists()


def test_a_file_that_is_not_a_result_is_named(tmp_path: Path):
    file = tmp_path / FILE
    for text in ("[]", "{", json.dumps({"model_path": "/m"})):
        file.write_text(text)
        with pytest.raises(BadFile, match=FILE):
            TrainingResult.load(file)
