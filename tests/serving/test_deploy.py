from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rl.errors import ExportFailed, UsageError
from rl.export.checksums import artifact_fields
from rl.models import Agent, Artifact, Deployment, ModelVersion
from rl.records import silent
from rl.serving.deploy import deploy_to_ollama, require_ollama
from tests.export.ollama_double import OllamaDouble, ollama_double
from tests.export.tiny_gguf import CHATML, write_gguf
from tests.test_settings import PRODUCTION, start

NO_SYSTEM = CHATML.replace("%}<|im_start|>", "if message.role != 'system' %}<|im_start|>", 1)
Stage = ModelVersion.Stage


@pytest.fixture
def double(tmp_path: Path, settings: Any) -> Iterator[OllamaDouble]:
    with ollama_double(tmp_path / "blobs") as server:
        settings.OLLAMA_URL = server.url
        yield server


def exported(agent: Agent, name: str, data_dir: Path, template: str = CHATML, kind: str = "gguf") -> Artifact:
    """A version of the agent at stage EXPORTED, and its file."""
    version = ModelVersion.objects.create(
        agent=agent, name=name, base_model="tiny", feedback_count=15, stage=Stage.EXPORTED
    )
    folder = data_dir / "models" / agent.name / name
    folder.mkdir(parents=True)
    fields = artifact_fields(write_gguf(folder / f"{name}.gguf", template))
    return Artifact.objects.create(version=version, kind=kind, quantization="q8_0", **fields)


def deploy(artifact: Artifact, name: str) -> Deployment:
    return deploy_to_ollama(artifact.version, artifact, model_name=name, report=silent)


def stage_of(artifact: Artifact) -> str:
    return ModelVersion.objects.get(pk=artifact.version_id).stage


def test_a_deployed_version_is_served_as_the_agent_asks(agent: Agent, data_dir: Path, double: OllamaDouble):
    agent.system_prompt, agent.context_length, agent.response_length = "Be kind.", 512, 64
    artifact = exported(agent, "v15", data_dir)
    deployment = deploy(artifact, "support-chat-v15")
    request = double.models["support-chat-v15:latest"]
    assert request["system"] == "Be kind."
    assert request["parameters"] == {"num_ctx": 512, "num_predict": 64, "stop": ["<|im_end|>"]}
    assert request["template"].endswith("{{ end }}{{ end }}<|im_start|>assistant\n")
    assert (deployment.target, deployment.model_name, deployment.version) == (
        "ollama",
        "support-chat-v15",
        artifact.version,
    )
    assert stage_of(artifact) == Stage.DEPLOYED


def test_deploying_again_makes_no_second_row(agent: Agent, data_dir: Path, double: OllamaDouble):
    artifact = exported(agent, "v15", data_dir)
    deploy(artifact, "support")
    deploy(artifact, "support:latest")
    assert [row.model_name for row in Deployment.objects.all()] == ["support"]
    assert stage_of(artifact) == Stage.DEPLOYED


def test_the_version_that_had_the_name_is_retired(agent: Agent, data_dir: Path, double: OllamaDouble):
    old, new = exported(agent, "v15", data_dir), exported(agent, "v25", data_dir)
    deploy(old, "support")
    deploy(new, "support")
    assert (stage_of(old), stage_of(new)) == (Stage.RETIRED, Stage.DEPLOYED)
    assert [row.version for row in Deployment.objects.all()] == [new.version]


def test_a_version_with_another_name_stays_deployed(agent: Agent, data_dir: Path, double: OllamaDouble):
    old, new = exported(agent, "v15", data_dir), exported(agent, "v25", data_dir)
    deploy(old, "support")
    deploy(old, "support:v15")
    deploy(new, "support")
    assert (stage_of(old), stage_of(new)) == (Stage.DEPLOYED, Stage.DEPLOYED)


def test_the_champion_stays_champion(agent: Agent, data_dir: Path, double: OllamaDouble):
    old, new = exported(agent, "v15", data_dir), exported(agent, "v25", data_dir)
    deploy(old, "support")
    Deployment.promote(old.version)
    deploy(new, "support")
    assert Deployment.champion(agent) == old.version


def test_a_champion_whose_name_went_to_another_version_is_not_said_to_be_served(
    agent: Agent, data_dir: Path, double: OllamaDouble
):
    old, new = exported(agent, "v15", data_dir), exported(agent, "v25", data_dir)
    deploy(old, "support")
    Deployment.promote(old.version)
    deploy(new, "support")
    Deployment.promote(new.version)
    rows = {row.version.name: (row.alias, row.target, row.model_name) for row in Deployment.objects.all()}
    assert rows == {"v15": ("previous", "none", ""), "v25": ("champion", "ollama", "support")}
    assert stage_of(old) == Stage.RETIRED


def test_deploying_the_champion_again_leaves_its_row_as_it_is(agent: Agent, data_dir: Path, double: OllamaDouble):
    artifact = exported(agent, "v15", data_dir)
    deploy(artifact, "support")
    Deployment.promote(artifact.version)
    deploy(artifact, "support")
    assert [(row.alias, row.model_name) for row in Deployment.objects.all()] == [("champion", "support")]


@pytest.mark.django_db
def test_a_server_that_is_down_leaves_no_row(agent: Agent, data_dir: Path, settings: Any):
    settings.OLLAMA_URL = "http://127.0.0.1:9"
    artifact = exported(agent, "v15", data_dir)
    with pytest.raises(ExportFailed, match="Ollama does not answer at http://127.0.0.1:9"):
        deploy(artifact, "support")
    assert (Deployment.objects.count(), stage_of(artifact)) == (0, Stage.EXPORTED)


def test_a_file_that_changed_since_its_export_is_not_served(agent: Agent, data_dir: Path, double: OllamaDouble):
    artifact = exported(agent, "v15", data_dir)
    write_gguf(data_dir / artifact.path, CHATML + "{# changed #}")
    with pytest.raises(ExportFailed, match="is not the file that was exported any more"):
        deploy(artifact, "support")
    assert (double.models, Deployment.objects.count()) == ({}, 0)


def test_an_unknown_chat_template_is_refused_before_anything_is_sent(
    agent: Agent, data_dir: Path, double: OllamaDouble
):
    artifact = exported(
        agent, "v15", data_dir, template="{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"
    )
    with pytest.raises(ExportFailed, match="no known equivalent in Ollama"):
        deploy(artifact, "support")
    assert double.requests == []


def test_a_system_prompt_needs_a_template_that_takes_one(agent: Agent, data_dir: Path, double: OllamaDouble):
    artifact = exported(agent, "v15", data_dir, template=NO_SYSTEM)
    agent.system_prompt = "Be kind."
    with pytest.raises(ExportFailed, match="takes no system message, but support-chat has a system prompt"):
        deploy(artifact, "support")
    agent.system_prompt = ""
    assert deploy(artifact, "support").model_name == "support"


def test_only_gguf_files_are_deployed(agent: Agent, data_dir: Path, double: OllamaDouble):
    artifact = exported(agent, "v15", data_dir, kind="merged")
    with pytest.raises(UsageError, match="Ollama loads GGUF files; .* merged q8_0 is none"):
        deploy(artifact, "support")
    assert double.requests == []


def test_asking_beforehand_checks_the_name_and_the_server(double: OllamaDouble, settings: Any):
    assert require_ollama() == require_ollama("support:v2") == "0.0.0"
    with pytest.raises(UsageError, match="Ollama model name 'a b' is not usable"):
        require_ollama("a b")
    with pytest.raises(UsageError, match="model name '_x' is not usable"):
        require_ollama("_x")
    settings.OLLAMA_URL = "http://127.0.0.1:9"
    with pytest.raises(ExportFailed, match="start it with 'ollama serve', or correct OLLAMA_URL"):
        require_ollama()


@pytest.mark.parametrize(
    "url", ["127.0.0.1:11434", "ftp://host", "http://", "http://me:secret@host", "http://host?x=1", "http://a b"]
)
def test_an_ollama_url_that_is_none_stops_the_start(tmp_path: Path, url: str):
    result = start(tmp_path, **PRODUCTION, OLLAMA_URL=url)
    assert result.returncode != 0
    assert "is no address: write http://host:port or https://host:port" in result.stderr


@pytest.mark.parametrize("url", ["http://ollama:11434/", "https://models.example.com/ollama", "http://[::1]:11434", ""])
def test_other_ollama_urls_are_taken(tmp_path: Path, url: str):
    environment = {"OLLAMA_URL": url} if url else {}
    assert start(tmp_path, **PRODUCTION, **environment).returncode == 0
