"""What a training run does with Ollama: it asks before it trains, and deploys what the gate promotes."""

from pathlib import Path
from typing import Any

import pytest

from rl.base.errors import ExportFailed
from rl.base.records import silent
from rl.dataset_builder import DataOptions
from rl.models import Agent, Deployment, Evaluation, ModelVersion, TrainingRun, TrainingSet
from rl.runs import run as runs
from rl.runs.after_gate import act_on_verdict
from rl.versions import versions
from tests.export.ollama_double import OllamaDouble
from tests.export.tiny_models import build_adapter

pytestmark = pytest.mark.learn

Verdict = Evaluation.Verdict


def options(**values: Any) -> runs.RunOptions:
    return runs.RunOptions(data=DataOptions(), deploy="ollama", **values)


def test_a_run_that_is_to_end_at_ollama_fails_before_it_trains_when_ollama_is_down(
    agent: Agent, data_dir: Path, settings: Any
):
    settings.OLLAMA_URL = "http://127.0.0.1:9"
    run = runs.create(agent, method_name="dpo", config=agent.training_config(), options=options())
    assert run.claim()
    with pytest.raises(ExportFailed, match="Ollama does not answer at http://127.0.0.1:9"):
        runs.execute(run, silent)
    run.refresh_from_db()
    assert (run.state, run.training_set) == (TrainingRun.State.FAILED, None)
    assert run.error.startswith("Ollama does not answer at http://127.0.0.1:9")


@pytest.fixture
def version(agent: Agent, data_dir: Path, tiny_base: Path) -> ModelVersion:
    """With an adapter that nobody trained."""
    version = ModelVersion.objects.create(agent=agent, name="v15", base_model=str(tiny_base), feedback_count=15)
    build_adapter(versions.version_directory(version) / "adapter", tiny_base)
    return version


def evaluation(version: ModelVersion, verdict: Verdict) -> Evaluation:
    training_set = TrainingSet(agent=version.agent, method="prompts")  # whose files are not judged
    return Evaluation(version=version, training_set=training_set, verdict=verdict, report={})


def test_a_promoted_version_is_exported_registered_and_champion(version: ModelVersion, double: OllamaDouble):
    act_on_verdict(version, evaluation(version, Verdict.PROMOTE), options(quantization="q8_0"), silent)
    request = double.models["support-chat:v15"]
    assert "<|im_start|>user\n{{ .Content }}<|im_end|>\n" in request["template"]
    assert request["parameters"]["stop"] == ["<|im_end|>"]
    deployment = Deployment.objects.get(target=Deployment.Target.OLLAMA)
    assert (deployment.model_name, deployment.version) == ("support-chat:v15", version)
    version.refresh_from_db()
    assert version.stage == ModelVersion.Stage.DEPLOYED
    assert Deployment.champion(version.agent) == version
    assert double.models["support-chat:latest"]["files"] == request["files"]


def test_a_name_with_a_tag_is_registered_so_and_the_file_has_none(version: ModelVersion, double: OllamaDouble):
    chosen = options(quantization="f16", model_name="support:v2")
    act_on_verdict(version, evaluation(version, Verdict.PROMOTE), chosen, silent)
    assert set(double.models) == {"support:v2", "support-chat:latest"}
    assert Path(version.artifacts.get().path).name == "support-v2-f16.gguf"


@pytest.mark.parametrize("verdict", [Verdict.REJECT, Verdict.UNDECIDED])
def test_what_the_gate_does_not_promote_is_not_registered(
    version: ModelVersion, double: OllamaDouble, verdict: Verdict
):
    act_on_verdict(version, evaluation(version, verdict), options(), silent)
    assert (double.requests, Deployment.objects.count(), version.artifacts.count()) == ([], 0, 0)


def test_a_version_that_ollama_refuses_is_not_champion_and_can_be_tried_again(
    version: ModelVersion, double: OllamaDouble
):
    double.fail_create = "unsupported architecture"
    with pytest.raises(ExportFailed, match="unsupported architecture"):
        act_on_verdict(version, evaluation(version, Verdict.PROMOTE), options(), silent)
    version.refresh_from_db()
    assert (Deployment.champion(version.agent), version.stage) == (None, ModelVersion.Stage.EXPORTED)
    assert version.artifacts.filter(kind="gguf").exists()
    double.fail_create = ""
    act_on_verdict(version, evaluation(version, Verdict.PROMOTE), options(), silent)
    assert Deployment.champion(version.agent) == version
