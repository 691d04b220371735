from pathlib import Path
from typing import Any

import pytest

from rl.base.errors import ExportFailed, RunConflict, UsageError
from rl.base.locks import device_lock
from rl.models import Agent, AuditEvent, Deployment, ModelVersion, TrainingRun
from rl.serving import promotion
from rl.serving.deploy import deploy
from tests.export.ollama_double import OllamaDouble
from tests.serving.exported import exported


@pytest.fixture
def versions(agent: Agent, data_dir: Path, double: OllamaDouble) -> tuple[ModelVersion, ModelVersion]:
    """Two that Ollama serves, with different files."""
    found = []
    for name in ("v15", "v25"):
        template = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
        ask = "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
        version = exported(agent, name, data_dir, f"{template}{ask}{{# {name} #}}").version
        deploy(agent, version, target="ollama")
        found.append(version)
    return found[0], found[1]


def stable(double: OllamaDouble) -> str:
    """Which version the agent's own name stands for at Ollama; empty for none."""
    model = double.models.get("support-chat:latest")
    same = [name for name, other in double.models.items() if model and other["files"] == model["files"]]
    return next((name.partition(":")[2] for name in same if name.startswith("support-chat:v")), "")


def aliases(agent: Agent) -> dict[str, str]:
    return {row.alias: row.version_name for row in agent.deployments.exclude(alias="")}


class Told(list[str]):
    def __call__(self, event: str, values: dict[str, Any]) -> None:
        if event == "log":
            self.append(values["text"])


@pytest.mark.process
def test_promotion_moves_the_alias_and_the_name_at_ollama(agent: Agent, double: OllamaDouble, versions: Any):
    promotion.promote(agent, versions[0])
    assert (stable(double), aliases(agent)) == ("v15", {"champion": "v15"})
    promotion.promote(agent, versions[1])
    assert (stable(double), aliases(agent)) == ("v25", {"champion": "v25", "previous": "v15"})
    promotion.promote(agent, versions[1])
    assert aliases(agent) == {"champion": "v25", "previous": "v15"}


@pytest.mark.process
def test_rolling_back_swaps_and_doing_it_twice_changes_nothing(agent: Agent, double: OllamaDouble, versions: Any):
    promotion.promote(agent, versions[0])
    promotion.promote(agent, versions[1])
    assert promotion.roll_back(agent) == versions[0]
    assert (stable(double), aliases(agent)) == ("v15", {"champion": "v15", "previous": "v25"})
    assert promotion.roll_back(agent) == versions[1]
    assert (stable(double), aliases(agent)) == ("v25", {"champion": "v25", "previous": "v15"})


@pytest.mark.process
def test_a_rollback_instead_of_a_version_needs_it_in_use(agent: Agent, double: OllamaDouble, versions: Any):
    promotion.promote(agent, versions[0])
    promotion.promote(agent, versions[1])
    with pytest.raises(RunConflict, match="v15 of support-chat is not in use any more"):
        promotion.roll_back(agent, instead_of=versions[0])
    assert (stable(double), aliases(agent)) == ("v25", {"champion": "v25", "previous": "v15"})
    assert promotion.roll_back(agent, instead_of=versions[1], reason="worse") == versions[0]
    assert AuditEvent.objects.latest("pk").details == {"before": "v25", "reason": "worse"}
    with pytest.raises(RunConflict):
        promotion.roll_back(agent, instead_of=versions[1])
    assert (stable(double), aliases(agent)) == ("v15", {"champion": "v15", "previous": "v25"})


@pytest.mark.process
def test_the_first_version_is_rolled_back_to_the_base_model(agent: Agent, double: OllamaDouble, versions: Any):
    told = Told()
    promotion.promote(agent, versions[0])
    assert promotion.roll_back(agent, report=told) is None
    assert aliases(agent) == {"previous": "v15"}
    assert told == [
        "nothing serves the base model yet, while v15 is served: run 'deploy_model'",
        "Ollama does not serve the base model: support-chat is v15 there still",
    ]


@pytest.mark.process
def test_the_base_model_can_be_promoted_and_rolled_back(agent: Agent, double: OllamaDouble, versions: Any):
    base = Deployment.objects.create(agent=agent, target="ollama", model_name="support-chat:v15")
    promotion.promote(agent, versions[1])
    promotion.promote(agent, None)
    assert (stable(double), aliases(agent)) == ("v15", {"champion": "base", "previous": "v25"})
    promotion.promote(agent, None)
    assert aliases(agent) == {"champion": "base", "previous": "v25"}
    assert promotion.in_use(agent) == base
    assert promotion.roll_back(agent) == versions[1]
    assert (stable(double), aliases(agent)) == ("v25", {"champion": "v25", "previous": "base"})


def test_an_agent_that_has_used_its_base_model_only_has_nothing_to_go_back_to(agent: Agent, data_dir: Path):
    with pytest.raises(UsageError, match="support-chat has no version to go back to"):
        promotion.roll_back(agent)


@pytest.mark.process
def test_a_version_that_nothing_serves_is_promoted_and_told(agent: Agent, data_dir: Path, versions: Any):
    told = Told()
    promotion.promote(agent, versions[0], report=told)
    new = exported(agent, "v35", data_dir).version
    promotion.promote(agent, new, report=told)
    assert aliases(agent) == {"champion": "v35", "previous": "v15"}
    assert "nothing serves v35 yet, while v15 is served: run 'deploy_model'" in told


def test_nothing_is_told_where_nothing_is_served(agent: Agent, data_dir: Path):
    told = Told()
    for name in ("v15", "v25"):
        promotion.promote(agent, exported(agent, name, data_dir).version, report=told)
    assert (told, aliases(agent)) == ([], {"champion": "v25", "previous": "v15"})


@pytest.mark.database
@pytest.mark.process
def test_a_version_that_has_the_agents_own_name_keeps_its_model(agent: Agent, data_dir: Path, double: OllamaDouble):
    old, new = (exported(agent, name, data_dir, kind="gguf").version for name in ("v15", "v25"))
    deploy(agent, old, target="ollama", model_name="support-chat")
    promotion.promote(agent, old)
    deploy(agent, new, target="ollama")
    promotion.promote(agent, new)
    assert set(double.models) == {"support-chat:latest", "support-chat:v15", "support-chat:v25"}
    assert Deployment.objects.get(version=old).model_name == "support-chat:v15"
    promotion.roll_back(agent)
    assert Deployment.champion(agent) == old


@pytest.mark.process
def test_ollama_being_down_moves_nothing(agent: Agent, settings: Any, versions: Any):
    promotion.promote(agent, versions[0])
    promotion.promote(agent, versions[1])
    settings.OLLAMA_URL = "http://127.0.0.1:9"
    with pytest.raises(ExportFailed, match="Ollama does not answer"):
        promotion.roll_back(agent)
    with pytest.raises(ExportFailed, match="Ollama does not answer"):
        promotion.promote(agent, versions[0])
    assert aliases(agent) == {"champion": "v25", "previous": "v15"}


def test_another_agents_version_and_a_reward_model_are_refused(agent: Agent, data_dir: Path):
    version = exported(agent, "v15", data_dir).version
    with pytest.raises(UsageError, match="is not a version of other"):
        promotion.promote(Agent.objects.create(name="other"), version)
    TrainingRun.objects.create(agent=agent, method="reward_model", version=version)
    with pytest.raises(UsageError, match="reward model"):
        promotion.promote(agent, ModelVersion.objects.get(pk=version.pk))


def test_who_waits_too_long_for_another_promotion_is_told(
    agent: Agent, data_dir: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(promotion, "_PATIENCE_SECONDS", -1.0)
    with (
        device_lock(data_dir / "locks", f"promote-{agent.pk}", lambda: None),
        pytest.raises(RunConflict, match="by somebody else"),
    ):
        promotion.promote(agent, None)
