"""Versions by the API: what is in use is changed by keys with the scope for it alone."""

import pytest

from rl.models import Agent, Artifact, AuditEvent, Deployment, ModelVersion
from rl.operations.audit import Action
from tests.admin.records import make_evaluation, make_training_set
from tests.web.api.conftest import Caller, assert_problem, key_for

pytestmark = pytest.mark.django_db
VERSIONS = "/api/v1/versions/"


@pytest.fixture
def deployer(agent: Agent) -> Caller:
    return Caller(key_for(None, scopes=["read", "deploy"]))


@pytest.fixture
def served(version: ModelVersion) -> ModelVersion:
    Deployment.objects.create(
        agent=version.agent, version=version, target="openai", url="http://127.0.0.1:9", model_name="shop:v25"
    )
    return version


def test_a_list_says_what_was_measured_and_what_is_in_use(deployer: Caller, served: ModelVersion, other_agent: Agent):
    make_evaluation(served, make_training_set(served.agent, 1), verdict="promote")
    ModelVersion.objects.create(agent=other_agent, name="v1", base_model="tiny", feedback_count=3)
    (row,) = deployer.get(VERSIONS, agent=served.agent.name).json()["results"]
    assert row == deployer.get(f"{VERSIONS}{served.pk}/").json()
    assert (row["name"], row["verdict"], row["in_use"], row["served_as"]) == ("v25", "promote", False, ["shop:v25"])
    assert [of["agent"] for of in deployer.get(VERSIONS).json()["results"]] == ["billing", served.agent.name]


@pytest.mark.database
def test_many_versions_cost_no_more_queries(
    deployer: Caller, agent: Agent, other_agent: Agent, django_assert_max_num_queries
):
    for number in range(30):
        row = ModelVersion.objects.create(agent=agent, name=f"v{number}", base_model="tiny", feedback_count=1)
        Deployment.objects.create(agent=agent, version=row, target="none")
    deployer.get(VERSIONS)
    with django_assert_max_num_queries(6):
        assert len(deployer.get(VERSIONS).json()["results"]) == 30


def test_a_version_is_put_into_use_and_taken_back(deployer: Caller, served: ModelVersion):
    answer = deployer.post(f"{VERSIONS}{served.pk}/promote/")
    assert (answer.status_code, answer.json()["in_use"]) == (200, True)
    assert Deployment.champion(served.agent) == served
    assert AuditEvent.objects.filter(action=Action.PROMOTED).get().actor.startswith("key:")
    back = deployer.post("/api/v1/roll-back/", {"agent": served.agent.name})
    assert back.json() == {"agent": served.agent.name, "in_use": "base"}
    assert Deployment.champion(served.agent) is None


def test_what_nothing_serves_is_not_put_into_use(deployer: Caller, version: ModelVersion):
    assert_problem(deployer.post(f"{VERSIONS}{version.pk}/promote/"), 409, "nothing serves v25: serve it first")
    assert_problem(deployer.post(f"{VERSIONS}{version.pk}/serve/"), 400, "v25 has no GGUF file at q8_0 yet")
    assert_problem(deployer.post("/api/v1/roll-back/", {"agent": version.agent.name}), 400, "base model")


def test_serving_is_work_for_the_queue(
    deployer: Caller, version: ModelVersion, data_dir, monkeypatch, django_capture_on_commit_callbacks
):
    asked = []
    monkeypatch.setattr("django_q.tasks.async_task", lambda *arguments: asked.append(arguments[:2]))
    path = data_dir / "models" / "file.gguf"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"GGUF")
    Artifact.objects.create(
        version=version, kind="gguf", quantization="q8_0", path="models/file.gguf", size_bytes=4, sha256="0" * 64
    )
    with django_capture_on_commit_callbacks(execute=True):
        answer = deployer.post(f"{VERSIONS}{version.pk}/serve/")
    assert (answer.status_code, asked) == (202, [("rl.tasks.deploy_version", version.pk)])


def test_an_instruction_is_a_version_that_may_be_used_at_once(deployer: Caller, served: ModelVersion):
    agent = served.agent
    Deployment.promote(served)
    body = {"agent": agent.name, "text": "Answer in one short sentence."}
    made = deployer.post("/api/v1/instructions/", body)
    assert (made.status_code, made.json()["instruction"], made.json()["in_use"]) == (201, body["text"], False)
    again = deployer.post("/api/v1/instructions/", {**body, "use": True})
    assert (again.status_code, again.json()["id"], again.json()["in_use"]) == (200, made.json()["id"], True)
    elsewhere = deployer.post("/api/v1/instructions/", {**body, "instruction_place": "system"})
    assert (elsewhere.status_code, elsewhere.json()["instruction_place"]) == (201, "system")


@pytest.mark.parametrize(
    ("changes", "pointer"),
    [
        ({"text": ""}, "/text"),
        ({"text": "x" * 501}, "/text"),
        ({"instruction_place": "above"}, "/instruction_place"),
        ({"agent": 7}, "/agent"),
    ],
)
def test_what_cannot_be_told_is_refused(
    deployer: Caller, served: ModelVersion, changes: dict[str, object], pointer: str
):
    body = {"agent": served.agent.name, "text": "Be brief.", **changes}
    assert_problem(deployer.post("/api/v1/instructions/", body), 400, pointer)
    assert not ModelVersion.objects.exclude(instruction="").exists()


@pytest.mark.parametrize("scope", ["read", "ingest", "train"])
def test_other_scopes_change_nothing(served: ModelVersion, scope: str):
    caller = Caller(key_for(None, scopes=[scope]))
    for path in (f"{VERSIONS}{served.pk}/promote/", f"{VERSIONS}{served.pk}/serve/", "/api/v1/roll-back/"):
        assert_problem(caller.post(path, {"agent": served.agent.name}), 403, "deploy")
    assert_problem(caller.post("/api/v1/instructions/", {"agent": served.agent.name, "text": "x"}), 403, "deploy")
    assert Deployment.champion(served.agent) is None


def test_versions_of_another_agent_are_not_there(served: ModelVersion, other_agent: Agent):
    stranger = Caller(key_for(other_agent, scopes=["read", "deploy"]))
    assert stranger.get(VERSIONS).json()["results"] == []
    assert_problem(stranger.get(f"{VERSIONS}{served.pk}/"), 404)
    assert_problem(stranger.post(f"{VERSIONS}{served.pk}/promote/"), 404)
    assert_problem(stranger.post("/api/v1/roll-back/", {"agent": served.agent.name}), 404)
