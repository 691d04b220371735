import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rl.base.errors import ExportFailed, Interrupted, UsageError
from rl.base.export_records import ExportResult
from rl.base.locks import device_lock
from rl.export import release
from rl.hardware import detect_hardware
from rl.models import Agent, Artifact, Deployment, ModelVersion, TrainingRun
from rl.serving import overview, promotion
from rl.serving.deploy import deploy as deploy_version
from rl.serving.deploy import require_target
from rl.serving.upstreams import upstream_of
from tests.admin.records import make_run
from tests.export.ollama_double import OllamaDouble
from tests.export.tiny_gguf import CHATML, write_gguf
from tests.serving.exported import exported
from tests.test_settings import PRODUCTION, start

pytestmark = pytest.mark.process


NO_SYSTEM = CHATML.replace("%}<|im_start|>", "if message.role != 'system' %}<|im_start|>", 1)
Stage = ModelVersion.Stage


@pytest.fixture
def artifact(agent: Agent, data_dir: Path) -> Artifact:
    return exported(agent, "v15", data_dir)


old = artifact


@pytest.fixture
def new(agent: Agent, data_dir: Path) -> Artifact:
    return exported(agent, "v25", data_dir)


def deploy(artifact: Artifact, name: str = "", **options: Any) -> Deployment:
    return deploy_version(
        artifact.version.agent, artifact.version, **{"target": "ollama", "model_name": name, **options}
    )


def no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    hardware = replace(detect_hardware(), gpus=())
    monkeypatch.setattr("rl.serving.hosting.detect_hardware", lambda: hardware)


def stage_of(artifact: Artifact) -> str:
    return ModelVersion.objects.get(pk=artifact.version_id).stage


def test_a_deployed_version_is_served_as_the_agent_asks(
    artifact: Artifact, agent: Agent, double: OllamaDouble, monkeypatch: pytest.MonkeyPatch
):
    no_gpu(monkeypatch)
    agent.system_prompt, agent.context_length, agent.response_length = "Be kind.", 512, 64
    deployment = deploy(artifact)
    request = double.models["support-chat:v15"]
    assert request["system"] == "Be kind."
    threads = request["parameters"].pop("num_thread")
    assert 1 <= threads <= (os.cpu_count() or 1)
    assert request["parameters"] == {"num_ctx": 512, "num_gpu": 0, "num_predict": 64, "stop": ["<|im_end|>"]}
    assert request["template"].endswith("{{ end }}{{ end }}<|im_start|>assistant\n")
    assert (deployment.target, deployment.model_name, deployment.version) == (
        "ollama",
        "support-chat:v15",
        artifact.version,
    )
    assert (deployment.path, deployment.sha256) == (artifact.path, artifact.sha256)
    assert stage_of(artifact) == Stage.DEPLOYED


def test_ollama_gets_no_model_that_thinks(artifact: Artifact, agent: Agent, double: OllamaDouble):
    TrainingRun.objects.create(agent=agent, version=artifact.version, method="dpo", config={"thinks": True}, options={})
    with pytest.raises(UsageError, match="v15 thinks before it answers, .* serve it with llama.cpp"):
        deploy(artifact)
    agent.thinks = True
    with pytest.raises(UsageError, match="the base model of support-chat thinks"):
        deploy_version(agent, None, target="ollama")
    assert not Deployment.objects.exists()


def test_deploying_again_makes_no_second_row(artifact: Artifact, double: OllamaDouble):
    deploy(artifact, "support")
    deploy(artifact, "support:latest")
    assert [row.model_name for row in Deployment.objects.all()] == ["support"]
    assert stage_of(artifact) == Stage.DEPLOYED


def test_the_version_that_had_the_name_is_retired(old: Artifact, new: Artifact, double: OllamaDouble):
    deploy(old, "support")
    deploy(new, "support")
    assert (stage_of(old), stage_of(new)) == (Stage.RETIRED, Stage.DEPLOYED)
    assert [row.version for row in Deployment.objects.all()] == [new.version]


def test_a_version_with_another_name_stays_deployed(old: Artifact, new: Artifact, double: OllamaDouble):
    deploy(old, "support")
    deploy(old, "support:v15")
    deploy(new, "support")
    assert (stage_of(old), stage_of(new)) == (Stage.DEPLOYED, Stage.DEPLOYED)


def test_the_champion_stays_champion(old: Artifact, new: Artifact, agent: Agent, double: OllamaDouble):
    deploy(old, "support")
    Deployment.promote(old.version)
    deploy(new, "support")
    assert Deployment.champion(agent) == old.version


def test_a_champion_whose_name_went_to_another_version_is_not_said_to_be_served(
    old: Artifact, new: Artifact, double: OllamaDouble
):
    deploy(old, "support")
    Deployment.promote(old.version)
    deploy(new, "support")
    Deployment.promote(new.version)
    rows = {row.version.name: (row.alias, row.target, row.model_name) for row in Deployment.objects.all()}
    assert rows == {"v15": ("previous", "none", ""), "v25": ("champion", "ollama", "support")}
    assert stage_of(old) == Stage.RETIRED


def test_deploying_the_champion_again_leaves_its_row_as_it_is(artifact: Artifact, double: OllamaDouble):
    deploy(artifact, "support")
    Deployment.promote(artifact.version)
    deploy(artifact, "support")
    assert [(row.alias, row.model_name) for row in Deployment.objects.all()] == [("champion", "support")]


@pytest.mark.django_db
def test_a_server_that_is_down_leaves_no_row(artifact: Artifact, settings: Any):
    settings.OLLAMA_URL = "http://127.0.0.1:9"
    with pytest.raises(ExportFailed, match="Ollama does not answer at http://127.0.0.1:9"):
        deploy(artifact, "support")
    assert (Deployment.objects.count(), stage_of(artifact)) == (0, Stage.EXPORTED)


def test_a_file_that_changed_since_its_export_is_not_served(artifact: Artifact, data_dir: Path, double: OllamaDouble):
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
    assert double.models == {}


def test_a_system_prompt_needs_a_template_that_takes_one(agent: Agent, data_dir: Path, double: OllamaDouble):
    artifact = exported(agent, "v15", data_dir, template=NO_SYSTEM)
    agent.system_prompt = "Be kind."
    with pytest.raises(ExportFailed, match="takes no system message, but support-chat has a system prompt"):
        deploy(artifact, "support")
    agent.system_prompt = ""
    assert deploy(artifact, "support").model_name == "support"


def test_asking_beforehand_checks_the_name_and_the_server(double: OllamaDouble, settings: Any):
    require_target("ollama")
    require_target("ollama", "support:v2")
    require_target("llama_cpp")
    require_target("")
    with pytest.raises(UsageError, match="Ollama model name 'a b' is not usable"):
        require_target("ollama", "a b")
    with pytest.raises(UsageError, match="model name '_x' is not usable"):
        require_target("ollama", "_x")
    settings.OLLAMA_URL = "http://127.0.0.1:9"
    with pytest.raises(ExportFailed, match="start it with 'ollama serve', or correct OLLAMA_URL"):
        require_target("ollama")


@pytest.mark.parametrize(
    ("place", "system"), [("system", "Be kind.\n\nBe brief."), ("question", "Be kind.")], ids=["rules", "question"]
)
def test_what_a_version_is_told_in_its_system_prompt_ollama_tells_too(
    artifact: Artifact, agent: Agent, double: OllamaDouble, place: str, system: str
):
    agent.system_prompt = "Be kind."
    agent.save()
    make_run(agent, version=artifact.version)
    ModelVersion.objects.update(instruction="Be brief.", instruction_place=place)
    artifact.version = ModelVersion.objects.get()
    promotion.promote(agent, deploy(artifact).version)
    assert double.models["support-chat:v15"]["system"] == system
    if place == "system":
        assert overview.environment(agent)["OLLAMA_MODEL_SUPPORT_CHAT"] == "support-chat:v15"
    else:
        with pytest.raises(UsageError, match="which its server does not know"):
            overview.environment(agent)


def test_a_modelfile_and_an_environment_file_lie_beside_the_model(
    artifact: Artifact, agent: Agent, data_dir: Path, double: OllamaDouble
):
    agent.system_prompt = "Be kind."
    deploy(artifact, profile="ryzen")
    folder = (data_dir / artifact.path).parent
    modelfile = (folder / "Modelfile").read_text().splitlines()
    assert modelfile[0] == "FROM ./v15.gguf"
    assert {"PARAMETER num_ctx 4096", "PARAMETER num_thread 14", 'PARAMETER stop "<|im_end|>"'} <= set(modelfile)
    assert 'SYSTEM """Be kind."""' in modelfile
    assert "OLLAMA_NUM_PARALLEL=4" in (folder / "ollama.env").read_text().splitlines()


def test_a_folder_that_cannot_be_written_is_told_and_the_model_is_served(
    artifact: Artifact, data_dir: Path, double: OllamaDouble
):
    ((data_dir / artifact.path).parent / "Modelfile").mkdir()
    told: list[str] = []
    deploy(artifact, report=lambda event, values: told.append(str(values.get("text"))))
    assert "support-chat:v15" in double.models
    assert any(text.startswith("no Modelfile was written to") for text in told)


def test_the_agents_own_name_stands_for_the_version_in_use_when_it_is_deployed_again(
    artifact: Artifact, double: OllamaDouble
):
    deploy(artifact)
    assert "support-chat:latest" not in double.models
    Deployment.promote(artifact.version)
    deploy(artifact)
    assert double.models["support-chat:latest"]["files"] == double.models["support-chat:v15"]["files"]


@pytest.mark.database
def test_another_server_is_only_written_down(artifact: Artifact, monkeypatch: pytest.MonkeyPatch):
    row = deploy(artifact, "support", target="openai", url="https://models.example.com/v1/", api_key_env="MODELS_KEY")
    assert (row.target, row.model_name, row.url) == ("openai", "support", "https://models.example.com")
    monkeypatch.setenv("MODELS_KEY", "k-123")
    upstream = upstream_of(row)
    assert (upstream.base_url, upstream.headers) == (
        "https://models.example.com/v1",
        {"Authorization": "Bearer k-123"},
    )
    assert stage_of(artifact) == Stage.DEPLOYED


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"target": "openai"}, "needs --url, and --model-name"),
        ({"target": "openai", "url": "ftp://h", "model_name": "m"}, "address 'ftp://h' is not usable"),
        ({"target": "openai", "url": "http://me:secret@h", "model_name": "m"}, "holds a name or a password"),
        ({"target": "openai", "url": "http://h", "model_name": "m", "api_key_env": "sk-12 3"}, "not the key itself"),
        ({"url": "http://h"}, "are for --target openai"),
        ({"target": "none"}, "unknown target 'none'"),
        ({"quantization": "q9"}, "q9"),
        ({"profile": "huge"}, "unknown hosting profile 'huge'; known: auto, ryzen"),
        ({"model_name": "a b"}, "model name 'a b' is not usable"),
    ],
)
def test_what_no_target_can_take_is_refused_before_anything_is_sent(
    artifact: Artifact, options: dict[str, str], said: str, agent: Agent, double: OllamaDouble
):
    with pytest.raises(UsageError) as caught:
        deploy_version(agent, artifact.version, **{"target": "ollama", **options})
    assert said in str(caught.value)
    assert "secret" not in str(caught.value)
    assert (double.requests, Deployment.objects.count()) == ([], 0)


def test_a_deployment_that_fails_leaves_the_earlier_one(old: Artifact, new: Artifact, double: OllamaDouble):
    deploy(old, "support")
    Deployment.promote(old.version)
    double.fail_create = "unsupported architecture"
    with pytest.raises(ExportFailed, match="unsupported architecture"):
        deploy(new, "support")
    rows = [(row.version, row.alias, row.target, row.model_name) for row in Deployment.objects.all()]
    assert rows == [(old.version, "champion", "ollama", "support")]
    assert list(double.models) == ["support:latest"]


def test_a_version_that_nothing_served_gets_its_place_in_the_row_that_it_has(artifact: Artifact, double: OllamaDouble):
    Deployment.promote(artifact.version)
    deploy(artifact)
    assert [(row.alias, row.target) for row in Deployment.objects.all()] == [("champion", "ollama")]


@pytest.mark.database
def test_the_alias_follows_a_version_to_where_it_was_deployed_last(artifact: Artifact, double: OllamaDouble):
    deploy(artifact)
    Deployment.promote(artifact.version)
    deploy(artifact, "mine", target="openai", url="http://127.0.0.1:8001")
    assert {row.target: row.alias for row in Deployment.objects.all()} == {"ollama": "", "openai": "champion"}


def test_two_deployments_at_once_wait_for_each_other(
    artifact: Artifact, agent: Agent, data_dir: Path, double: OllamaDouble
):
    waited: list[str] = []

    def give_up(event: str, values: dict[str, Any]) -> None:
        waited.append(event)
        raise Interrupted("somebody else is at it")

    with device_lock(data_dir / "locks", f"deploy-{agent.pk}", lambda: None), pytest.raises(Interrupted):
        deploy(artifact, report=give_up)
    assert (waited, double.models, Deployment.objects.count()) == (["step"], {}, 0)


@pytest.mark.database
def test_the_base_model_is_exported_and_served(
    agent: Agent, data_dir: Path, double: OllamaDouble, monkeypatch: pytest.MonkeyPatch
):
    path = write_gguf(data_dir / "base.gguf", CHATML)
    result = ExportResult(path, "q8_0")
    monkeypatch.setattr(release, "export_base", lambda agent, quantization, *, report: result, raising=False)
    row = deploy_version(agent, None, target="ollama")
    assert (row.version, row.version_name, row.model_name, row.path) == (None, "base", "support-chat:base", "base.gguf")
    assert double.models["support-chat:latest"]["files"] == double.models["support-chat:base"]["files"]


def test_a_version_is_exported_when_there_is_no_file_yet(
    artifact: Artifact, agent: Agent, data_dir: Path, double: OllamaDouble, monkeypatch: pytest.MonkeyPatch
):
    version = artifact.version
    (data_dir / artifact.path).unlink()
    asked: list[tuple[str, str]] = []

    def export(version: ModelVersion, format_name: str, quantization: str, *, report: Any) -> Artifact:
        asked.append((format_name, quantization))
        write_gguf(data_dir / artifact.path, CHATML)
        return artifact

    monkeypatch.setattr(release, "export_version", export)
    deploy_version(agent, version, target="ollama")
    deploy_version(agent, version, target="ollama")
    assert asked == [("gguf", "q8_0")]


@pytest.mark.parametrize(
    "url", ["127.0.0.1:11434", "ftp://host", "http://", "http://me:secret@host", "http://host?x=1", "http://a b"]
)
def test_an_ollama_url_that_is_none_stops_the_start(tmp_path: Path, url: str):
    result = start(tmp_path, **PRODUCTION, OLLAMA_URL=url)
    assert result.returncode != 0
    assert "is not an address: write http://host:port or https://host:port" in result.stderr


@pytest.mark.parametrize("url", ["http://ollama:11434/", "https://models.example.com/ollama", "http://[::1]:11434", ""])
def test_other_ollama_urls_are_taken(tmp_path: Path, url: str):
    environment = {"OLLAMA_URL": url} if url else {}
    assert start(tmp_path, **PRODUCTION, **environment).returncode == 0
