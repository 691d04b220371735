"""``manage.py deploy_model``."""

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError

from rl.models import Agent, Deployment, ModelVersion
from tests.commands.printing import printed
from tests.export.ollama_double import OllamaDouble
from tests.serving.exported import exported

run = partial(printed, "deploy_model", "--agent", "support-chat", verbosity=0)

pytestmark = pytest.mark.process


@pytest.fixture
def v15(agent: Agent, data_dir: Path) -> ModelVersion:
    return exported(agent, "v15", data_dir).version


@pytest.fixture
def v25(agent: Agent, data_dir: Path, v15: ModelVersion) -> ModelVersion:
    return exported(agent, "v25", data_dir).version


def document(*arguments: str) -> Any:
    return json.loads(run(*arguments, "--json"))


def test_the_newest_exported_version_is_deployed(v25: ModelVersion, double: OllamaDouble):
    assert run() == "v25 is served as support-chat:v25 (Ollama)\n"
    assert list(double.models) == ["support-chat:v25"]
    assert Deployment.champion(v25.agent) is None


def test_deploying_and_promoting_is_one_command(v25: ModelVersion, double: OllamaDouble):
    assert document("--version", "v15", "--promote") == {
        "version": "v15",
        "target": "ollama",
        "model_name": "support-chat:v15",
        "promoted": True,
    }
    assert set(double.models) == {"support-chat:v15", "support-chat:latest"}
    assert getattr(Deployment.champion(v25.agent), "name", "") == "v15"


def test_a_version_that_is_served_already_is_promoted_without_being_sent_again(v15: ModelVersion, double: OllamaDouble):
    run()
    double.requests.clear()
    assert run("--promote") == "support-chat uses v15 now\n"
    assert double.requests == ["POST /api/copy"]


def test_going_back_is_one_command(v25: ModelVersion, double: OllamaDouble):
    run("--version", "v15", "--promote")
    run("--version", "v25", "--promote")
    assert run("--rollback") == "support-chat uses v15 now\n"
    assert document("--rollback") == {"agent": "support-chat", "in_use": "v25"}


def test_a_version_is_stopped(v15: ModelVersion, double: OllamaDouble):
    run("--promote")
    assert document("--version", "v15", "--stop") == {"version": "v15", "stopped": ["support-chat:v15"]}
    assert double.models == {}
    with pytest.raises(CommandError, match="nothing serves v15 of support-chat"):
        run("--version", "v15", "--stop")


def test_what_is_served_is_listed(v25: ModelVersion, double: OllamaDouble):
    run("--version", "v15", "--promote")
    run("--target", "openai", "--url", "http://127.0.0.1:8001", "--model-name", "mine")
    double.load({"model": "support-chat:v15"})
    newest, oldest = document("--list")["served"]
    assert (oldest["version"], oldest["alias"], oldest["alive"], oldest["memory_bytes"]) == (
        "v15",
        "champion",
        True,
        2_164_037,
    )
    assert (newest["model_name"], newest["url"], newest["alive"]) == ("mine", "http://127.0.0.1:8001", None)
    table = run("--list")
    assert "yes, 2 MB" in table
    assert "support-chat:v15" in table


@pytest.mark.database
def test_a_list_does_not_need_ollama_to_answer(v15: ModelVersion, double: OllamaDouble, settings: Any):
    run()
    settings.OLLAMA_URL = "http://127.0.0.1:9"
    assert [entry["alive"] for entry in document("--list")["served"]] == [False]


def test_the_environment_leads_to_the_version_in_use(v15: ModelVersion, double: OllamaDouble):
    run("--promote")
    assert run("--print-env").splitlines() == [
        "export OLLAMA_MODEL_SUPPORT_CHAT=support-chat:v15",
        f"export OPENAI_BASE_URL={double.url}/v1",
    ]
    assert document("--print-env", "--env-name", "OLLAMA_MODEL_FAST") == {
        "OLLAMA_MODEL_FAST": "support-chat:v15",
        "OPENAI_BASE_URL": f"{double.url}/v1",
    }
    with pytest.raises(CommandError, match="is not a name for an environment variable"):
        run("--print-env", "--env-name", "X; rm -rf")


def test_there_is_no_environment_while_nothing_is_served(v15: ModelVersion):
    Deployment.promote(v15)
    with pytest.raises(CommandError, match="nothing serves the version in use of support-chat"):
        run("--print-env")


@pytest.mark.database
def test_a_dry_run_says_all_and_does_nothing(v25: ModelVersion, double: OllamaDouble):
    v25.agent.keep_versions = 1
    v25.agent.save()
    plan = document("--dry-run", "--quantization", "q4_k_m", "--promote")
    assert {name: plan[name] for name in ("version", "target", "model_name", "quantization", "file", "retired")} == {
        "version": "v25",
        "target": "ollama",
        "model_name": "support-chat:v25",
        "quantization": "q4_k_m",
        "file": "is exported first",
        "retired": ["v15"],
    }
    assert set(plan["reasons"]) < set(plan["profile"])
    assert (double.requests, Deployment.objects.count()) == ([], 0)
    assert "support-chat:v25" in run("--dry-run")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--version", "v99"), "has no version 'v99'"),
        (("--target", "openai"), "needs --url, and --model-name"),
        (("--url", "http://me:secret@h", "--model-name", "m"), "holds a name or a password"),
        (("--quantization", "q9"), "q9"),
        (("--rollback",), "has no version to go back to"),
        (("--rollback", "--stop"), "not allowed with"),
    ],
)
def test_what_cannot_be_done_is_one_line(arguments: tuple[str, ...], said: str, v15: ModelVersion):
    with pytest.raises(CommandError) as caught:
        run(*arguments)
    assert said in str(caught.value)


def test_an_agent_without_a_good_version_is_told(agent: Agent):
    with pytest.raises(CommandError, match="no version that was promoted or exported"):
        run()


def test_the_best_of_several_answers_is_asked_for_without_serving_anything_anew(
    v15: ModelVersion, double: OllamaDouble
):
    run("--promote")
    double.requests.clear()
    why = "support-chat has no judge yet: run 'auto_label --agent support-chat'"
    assert document("--version", "v15", "--best-of", "4") == {"version": "v15", "best_of": 4, "unjudged": why}
    assert double.requests == []
    assert f"the first of several answers is given: {why}" in " ".join(run("--list").split())
    (entry,) = document("--list")["served"]
    assert (entry["best_of"], entry["unjudged"]) == (4, why)
    assert run("--version", "v15", "--best-of", "1") == "v15 gives one answer\n"
    (entry,) = document("--list")["served"]
    assert (entry["best_of"], entry["unjudged"]) == (1, "")


@pytest.mark.database
def test_a_new_version_has_as_many_answers_as_the_one_in_use_unless_it_is_said(v25: ModelVersion, double: OllamaDouble):
    run("--version", "v15", "--promote", "--best-of", "3")
    run("--version", "v25")
    assert dict(Deployment.objects.values_list("version__name", "best_of")) == {"v15": 3, "v25": 3}
    run("--version", "v25", "--target", "ollama", "--best-of", "2")
    assert dict(Deployment.objects.values_list("version__name", "best_of")) == {"v15": 3, "v25": 2}


@pytest.mark.parametrize("count", ["0", "9"])
def test_the_number_of_answers_has_limits(v15: ModelVersion, double: OllamaDouble, count: str):
    for _ in range(2):  # before it is served, and after
        with pytest.raises(CommandError, match=f"the best of {count} answers cannot be asked for: choose 1 to 8"):
            run("--best-of", count)
        run()
