from pathlib import Path
from typing import Any

import pytest

from rl.models import Agent, Arm, Artifact, Deployment, Experiment, ModelVersion
from rl.serving import promotion
from rl.serving.deploy import deploy
from rl.serving.withdrawal import beyond, retire_old
from rl.versions.versions import artifact_fields, register_pass
from tests.export.ollama_double import OllamaDouble
from tests.serving.exported import exported

pytestmark = pytest.mark.process


Stage = ModelVersion.Stage


@pytest.fixture
def agent(agent: Agent) -> Agent:
    agent.keep_versions = 2
    agent.save()
    return agent


def deployed(agent: Agent, data_dir: Path, *names: str) -> list[ModelVersion]:
    found = []
    for name in names:
        version = exported(agent, name, data_dir).version
        deploy(agent, version, target="ollama")
        found.append(version)
    return found


def stages(agent: Agent) -> dict[str, str]:
    return {version.name: version.stage for version in agent.versions.all()}


@pytest.mark.database
def test_the_oldest_version_goes_when_a_new_one_is_deployed(agent: Agent, data_dir: Path, double: OllamaDouble):
    old, *_ = deployed(agent, data_dir, "v1", "v2", "v3")
    assert set(double.models) == {"support-chat:v2", "support-chat:v3"}
    assert stages(agent) == {"v1": Stage.RETIRED, "v2": Stage.DEPLOYED, "v3": Stage.DEPLOYED}
    assert (old.artifacts.count(), old.deployments.count()) == (0, 0)
    assert list((data_dir / "models/support-chat/v1").iterdir()) == []


@pytest.mark.database
def test_what_it_can_be_exported_from_again_stays(agent: Agent, data_dir: Path, double: OllamaDouble):
    version = exported(agent, "v1", data_dir).version
    for kind in ("adapter", "merged", "onnx"):
        folder = data_dir / "models/support-chat/v1" / kind
        folder.mkdir()
        (folder / "weights").write_bytes(b"w" * 10)
        Artifact.objects.create(version=version, kind=kind, **artifact_fields(folder))
    told: list[str] = []
    deployed(agent, data_dir, "v2", "v3", "v4")
    retire_old(agent, report=lambda event, values: told.append(str(values.get("text"))))
    assert [path.name for path in (data_dir / "models/support-chat/v1").iterdir()] == ["adapter"]
    assert list(version.artifacts.values_list("kind", flat=True)) == ["adapter"]


def test_each_retirement_is_told(agent: Agent, data_dir: Path, double: OllamaDouble):
    told: list[str] = []
    deployed(agent, data_dir, "v1", "v2")
    version = exported(agent, "v3", data_dir).version
    deploy(agent, version, target="ollama", report=lambda event, values: told.append(str(values.get("text"))))
    assert told[-1].startswith("v1 is retired: not served any more, 0.0 MB of exports removed")
    assert "Ollama has no model support-chat:v1 any more" in told


def test_the_version_in_use_and_the_one_before_it_stay(agent: Agent, data_dir: Path, double: OllamaDouble):
    first, second = deployed(agent, data_dir, "v1", "v2")
    promotion.promote(agent, first)
    promotion.promote(agent, second)
    deployed(agent, data_dir, "v3", "v4", "v5")
    assert [name for name, stage in stages(agent).items() if stage == Stage.RETIRED] == ["v3"]
    assert promotion.roll_back(agent) == first


@pytest.mark.parametrize(("state", "stays"), [("draft", True), ("running", True), ("stopped", False)])
def test_arms_of_experiments_that_are_not_over_stay(
    state: str, stays: bool, agent: Agent, data_dir: Path, double: OllamaDouble
):
    (old,) = deployed(agent, data_dir, "v1")
    experiment = Experiment.objects.create(agent=agent, name="test", state=state)
    Arm.objects.create(experiment=experiment, version=old)
    Arm.objects.create(experiment=experiment, version=None)
    deployed(agent, data_dir, "v2", "v3", "v4")
    assert ("support-chat:v1" in double.models) is stays


def test_an_old_version_that_somebody_deploys_today_is_not_taken_away(
    agent: Agent, data_dir: Path, double: OllamaDouble
):
    agent.keep_versions = 3
    old = exported(agent, "v1", data_dir).version
    deployed(agent, data_dir, "v2", "v3")
    agent.keep_versions = 2
    deploy(agent, old, target="ollama")
    assert set(double.models) == {"support-chat:v1", "support-chat:v3"}


def test_files_that_somebody_had_put_elsewhere_stay(agent: Agent, data_dir: Path, double: OllamaDouble, tmp_path: Path):
    version = exported(agent, "v1", data_dir).version
    elsewhere = tmp_path / "mine.gguf"
    elsewhere.write_bytes(b"GGUF")
    Artifact.objects.create(version=version, kind="gguf", quantization="f16", **artifact_fields(elsewhere))
    deployed(agent, data_dir, "v2", "v3", "v4")
    assert elsewhere.exists()
    assert [artifact.path for artifact in version.artifacts.all()] == [str(elsewhere)]
    assert version not in beyond(agent)


def test_a_target_that_does_not_answer_is_left_for_the_next_time(
    agent: Agent, data_dir: Path, double: OllamaDouble, settings: Any
):
    deployed(agent, data_dir, "v1", "v2")
    agent.keep_versions = 1
    told: list[str] = []
    url, settings.OLLAMA_URL = settings.OLLAMA_URL, "http://127.0.0.1:9"
    assert retire_old(agent, report=lambda event, values: told.append(values["text"])) == []
    assert "v1 is beyond the 1 that are kept, and stays: Ollama does not answer" in told[0]
    assert Deployment.objects.count() == 2
    settings.OLLAMA_URL = url
    assert [version.name for version in retire_old(agent)] == ["v1"]


def test_what_a_training_had_after_earlier_passes_goes_with_its_end_and_counts_for_none(
    agent: Agent, data_dir: Path, double: OllamaDouble
):
    first, second = deployed(agent, data_dir, "v1", "v2")
    passes = [register_pass(first, step) for step in (10, 20)]
    for version in passes:
        Deployment.objects.create(
            agent=agent, version=version, target="openai", url="http://127.0.0.1:9", model_name="m"
        )
    assert beyond(agent) == []
    Deployment.objects.filter(version=passes[1]).update(alias="champion")
    deployed(agent, data_dir, "v3")
    assert [version.pk in {row.version_id for row in agent.deployments.all()} for version in (first, *passes)] == [
        False,
        False,
        True,
    ]
    assert beyond(agent) == []
    assert second.deployments.exists()
