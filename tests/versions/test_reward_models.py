"""Reward models among an agent's versions: found by name, and kept from answering."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rl.base.errors import UsageError
from rl.base.records import silent
from rl.export import release
from rl.models import Agent, Deployment, ModelVersion, TrainingRun
from rl.versions import reward_models, versions
from rl.versions.versions import find_version

pytestmark = pytest.mark.django_db


def version(agent: Agent, name: str, method: str, task: str) -> ModelVersion:
    made = ModelVersion.objects.create(agent=agent, name=name, base_model="tiny", feedback_count=15)
    TrainingRun.objects.create(agent=agent, method=method, version=made, state=TrainingRun.State.SUCCEEDED)
    folder = versions.version_directory(made) / "adapter"
    folder.mkdir(parents=True)
    (folder / "adapter_config.json").write_text(json.dumps({"task_type": task, "base_model_name_or_path": "tiny"}))
    (folder / "adapter_model.safetensors").write_bytes(b"x")
    return made


@pytest.fixture
def judge(agent: Agent, data_dir: Path) -> ModelVersion:
    return version(agent, "reward-v15", "reward_model", "SEQ_CLS")


def test_it_is_found_by_its_version_or_its_folder(agent: Agent, judge: ModelVersion) -> None:
    folder = versions.weights_directory(judge)
    assert reward_models.find(agent, "Reward-V15") == folder
    assert reward_models.find(agent, str(folder)) == folder


def test_a_name_that_is_nothing_and_a_version_that_answers_are_refused(agent: Agent, data_dir: Path) -> None:
    version(agent, "v15", "dpo", "CAUSAL_LM")
    with pytest.raises(UsageError, match="there is no reward model v9: no such folder, and support-chat has no such"):
        reward_models.find(agent, "v9")
    with pytest.raises(
        UsageError, match="v15 is not a reward model: 'manage.py train_reward_model --agent support-chat'"
    ):
        reward_models.find(agent, "v15")


@pytest.mark.database
def test_it_is_never_promoted(judge: ModelVersion) -> None:
    with pytest.raises(UsageError, match="support-chat reward-v15 is a reward model: it scores answers, and no agent"):
        Deployment.promote(judge)
    assert not Deployment.objects.exists()


def test_it_is_never_exported(judge: ModelVersion) -> None:
    with pytest.raises(UsageError, match="is a reward model: it scores answers, and is not exported"):
        release.export_version(judge, "gguf", "q8_0", report=silent)


def test_the_newest_version_is_one_that_answers(agent: Agent, data_dir: Path) -> None:
    answers = version(agent, "v15", "dpo", "CAUSAL_LM")
    judge = version(agent, "reward-v15", "reward_model", "SEQ_CLS")
    assert find_version(agent) == answers
    assert find_version(agent, "reward-v15") == judge


def test_a_version_without_a_run_is_none(agent: Agent) -> None:
    assert not ModelVersion(agent=agent, name="v1").is_reward_model
