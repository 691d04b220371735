"""How what a run produced gets its name and its place."""

import json
from pathlib import Path

import pytest

from rl.base.errors import UsageError
from rl.base.records import silent
from rl.export import release
from rl.forgetting.records import is_in_use
from rl.lm import checkpoints
from rl.models import Agent, Artifact, Deployment, ModelVersion, TrainingRun, TrainingSet
from rl.versions import versions
from rl.versions.versions import find_version
from tests.admin.records import make_training_set
from tests.evaluation.task_sets import task_set, version_from

pytestmark = pytest.mark.django_db


@pytest.fixture
def run(agent: Agent, data_dir: Path) -> TrainingRun:
    """A run whose adapter is finished and not placed yet."""
    version = ModelVersion.objects.create(agent=agent, name="v15", base_model="tiny", feedback_count=15)
    run = TrainingRun.objects.create(agent=agent, method="dpo", version=version)
    write_adapter(run.directory / "adapter", "of this run")
    return run


def make_next(agent: Agent, method: str = "dpo", feedback: int = 286, **options) -> str:
    """The name of the version that a run of that method makes."""
    rows = make_training_set(agent, TrainingSet.objects.count())
    TrainingSet.objects.filter(pk=rows.pk).update(feedback_count=feedback)
    rows.refresh_from_db()
    run = TrainingRun.objects.create(agent=agent, method=method, training_set=rows, options=options)
    run.claim()
    name = versions.register(run, "tiny").name
    assert run.finish(TrainingRun.State.SUCCEEDED)
    return name


def test_versions_count_up_for_each_agent_and_kind(agent: Agent):
    assert [make_next(agent), make_next(agent), make_next(agent, "reward_model")] == ["v1", "v2", "reward-v1"]
    assert make_next(Agent.objects.create(name="other", base_model="tiny")) == "v1"


@pytest.mark.database
def test_versions_that_are_called_otherwise_keep_their_names_and_count(agent: Agent):
    for name in ("v286", "v4"):
        ModelVersion.objects.create(agent=agent, name=name, base_model="tiny", feedback_count=1)
    assert [make_next(agent), make_next(agent)] == ["v3", "v5"]


def test_n3s_versions_have_the_number_of_what_they_learned_from(agent: Agent):
    assert [make_next(agent, name_by_feedback=True) for _ in range(3)] == ["v286", "v286.2", "v286.3"]


def write_adapter(folder: Path, text: str) -> None:
    folder.mkdir(parents=True)
    (folder / "adapter_config.json").write_text(text)


def placed(version: ModelVersion) -> str:
    return (versions.weights_directory(version) / "adapter_config.json").read_text()


@pytest.mark.database
def test_the_adapter_moves_to_its_version(run):
    versions.place_weights(run, run.version)
    assert placed(run.version) == "of this run"
    assert not (run.directory / "adapter").exists()
    assert Artifact.objects.get().path == "models/support-chat/v15/adapter"


def test_what_only_going_on_would_need_goes_when_the_version_is_placed(run):
    for name in ("checkpoint-2", "checkpoint-4", "warm-up"):
        (run.directory / name).mkdir()
    versions.place_weights(run, run.version)
    assert list(run.directory.iterdir()) == []


def test_placing_again_changes_nothing(run):
    for _ in range(2):
        versions.place_weights(run, run.version)
    assert placed(run.version) == "of this run"
    assert Artifact.objects.count() == 1


def test_a_folder_that_another_database_left_behind_is_not_taken_for_the_new_adapter(run):
    write_adapter(versions.version_directory(run.version) / "adapter", "of a forgotten version")
    versions.place_weights(run, run.version)
    assert placed(run.version) == "of this run"


def test_a_whole_model_moves_to_its_version_and_is_recorded_as_one(run):
    write_adapter(versions.version_directory(run.version) / "adapter", "of a forgotten version")
    (run.directory / "adapter" / "adapter_config.json").rename(run.directory / "adapter" / "config.json")
    (run.directory / "adapter").rename(run.directory / "model")
    versions.place_weights(run, run.version)
    assert versions.weights_directory(run.version) == versions.version_directory(run.version) / "model"
    artifact = Artifact.objects.get()
    assert (artifact.path, artifact.get_kind_display()) == ("models/support-chat/v15/model", "whole model")


def test_weights_that_are_gone_are_one_clear_error(run):
    with pytest.raises(UsageError, match="the weights of support-chat v15 are not in "):
        versions.weights_directory(run.version)


@pytest.mark.parametrize("name", ["adapter", "model"])
def test_a_place_for_the_copy_that_is_taken_is_refused_before_the_training(tmp_path, name):
    (tmp_path / name).mkdir()
    with pytest.raises(UsageError, match="exists already; give another --output-dir"):
        versions.check_output_dir(str(tmp_path))
    versions.check_output_dir(str(tmp_path / "new" / "folder"))


def test_a_place_for_the_copy_that_is_no_folder_is_refused_before_the_training(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="cannot be written"):
        versions.check_output_dir(str(tmp_path / "file"))


@pytest.mark.database
def test_a_version_is_found_by_its_name_and_the_newest_without_one(agent: Agent, data_dir):
    with pytest.raises(UsageError, match="has no version; there are: none yet"):
        versions.find_version(agent)
    tasks = task_set(agent, [1], [2])
    first, second = (version_from(agent, name, "tiny", tasks) for name in ("tasks-v1", "tasks-v1.2"))
    assert versions.find_version(agent) == second
    assert versions.find_version(agent, "TASKS-V1") == first
    with pytest.raises(UsageError, match="has no version 'v9'; there are: tasks-v1.2, tasks-v1"):
        versions.find_version(agent, "v9")


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
    assert versions.find(agent, "Reward-V15") == folder
    assert versions.find(agent, str(folder)) == folder


def test_a_name_that_is_nothing_and_a_version_that_answers_are_refused(agent: Agent, data_dir: Path) -> None:
    version(agent, "v15", "dpo", "CAUSAL_LM")
    with pytest.raises(UsageError, match="there is no reward model v9: no such folder, and support-chat has no such"):
        versions.find(agent, "v9")
    with pytest.raises(
        UsageError, match="v15 is not a reward model: 'manage.py train_reward_model --agent support-chat'"
    ):
        versions.find(agent, "v15")


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


def test_an_earlier_pass_is_a_version_of_the_same_training_and_not_the_newest(agent: Agent, data_dir: Path):
    version = ModelVersion.objects.create(
        agent=agent, name="v1", base_model="tiny", feedback_count=7, instruction="Be brief."
    )
    folder = checkpoints.pass_folder(versions.version_directory(version), 10) / "adapter"
    folder.mkdir(parents=True)
    (folder / "adapter_config.json").write_text("{}")
    made = versions.register_pass(version, 10)
    assert (made.name, made.trained, made.manner, made.feedback_count) == ("v1-step10", version, version.manner, 7)
    assert not made.is_worded
    assert versions.list_passes(version) == [10]
    assert versions.weights_directory(made) == folder
    # and another instruction on it has its weights
    worded = versions.register_worded(agent, made, "Be kind.", "question")
    assert (worded.trained, versions.weights_directory(worded)) == (version, folder)
    worded.delete()
    assert versions.find_version(agent) == version
    assert agent.versions.first() == version
    assert versions.register_worded(agent, None, "Be long.", "question").name == "v2"
    with pytest.raises(UsageError, match="the weights of support-chat v1-step20 are not in"):
        versions.weights_directory(versions.register_pass(version, 20))


def test_a_version_is_in_use_where_an_earlier_pass_or_an_instruction_on_one_is(agent: Agent):
    version = ModelVersion.objects.create(agent=agent, name="v1", base_model="tiny", feedback_count=7)
    made = versions.register_pass(version, 10)
    worded = versions.register_worded(agent, made, "Be kind.", "question")
    assert not is_in_use(version)
    Deployment.objects.create(agent=agent, version=worded, target="shared", model_name="m")
    assert is_in_use(version)
