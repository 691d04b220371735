"""The page of a version: is it better, what it changed, where it comes from, its files, and putting it into use."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from django_q.models import OrmQ

from rl import tasks
from rl.models import Agent, Artifact, AuditEvent, Deployment, Evaluation, Experiment, ModelVersion
from rl.operations import audit
from rl.web.pages.versions import find_file
from rl.web.version_figures import bars, sentence
from tests.admin.records import make_evaluation, make_training_set, make_version
from tests.serving.exported import exported

PAGE = "/versions/support-chat/v2/"
FRESH = {"kind": "fresh", "share": {"value": 0.71, "low": 0.58, "high": 0.82}, "prompts": 40}


def sample(prompt: str, base: str, new: str, *errors: str) -> dict[str, Any]:
    return {"prompt": prompt, "base": {"answer": base, "errors": []}, "new": {"answer": new, "errors": list(errors)}}


@pytest.fixture
def version(agent: Agent) -> ModelVersion:
    version = make_version(agent, "v2", parent=make_version(agent, "v1"))
    evaluation = make_evaluation(version, make_training_set(agent), against=version.parent)
    rails = [
        {"name": "empty_rate", "value": 0.0, "limit": 0.1, "broken": False, "text": "empty: 0 of 16 answers"},
        {"name": "degenerate_rate", "value": 0.3, "limit": 0.2, "broken": True, "text": "degenerate: 4 of 16 answers"},
    ]
    samples = [sample("q1", "long", "short"), sample("q2", "same", "same"), sample("q3", "good", "a a a a", "loop")]
    report = {"reason": "<b>It is better.</b>", "decided_by": "fresh", "evidence": [FRESH]}
    evaluation.report |= report | {"guards": {"rails": rails, "samples": samples}}
    evaluation.save()
    return version


@pytest.fixture
def staff(client: Client, bob) -> Client:
    client.force_login(bob)
    return client


def test_the_verdict_is_one_sentence_with_its_interval(staff: Client, version: ModelVersion) -> None:
    text = staff.get(PAGE).content.decode()
    assert "v2 is better" in text
    assert text.count("It wins 71 % of fresh answers against v1 (58 to 82 %).") == 3  # sentence, picture and table
    assert "&lt;b&gt;It is better." in text
    assert '<a href="/versions/support-chat/v1/">v1</a>' in text


@pytest.mark.database
@pytest.mark.parametrize(
    ("verdict", "heading"), [("undecided", "v2 is perhaps better"), ("reject", "v2 broke a guard rail")]
)
def test_what_is_not_better_is_called_so(version: ModelVersion, verdict: str, heading: str) -> None:
    Evaluation.objects.update(verdict=verdict)
    assert sentence(Evaluation.objects.get()).heading == heading


@pytest.mark.database
@pytest.mark.parametrize(
    ("share", "heading"),
    [
        ({"value": 0.3, "low": 0.2, "high": 0.4}, "v2 is worse"),
        ({"value": 0.5, "low": 0.4, "high": 0.6}, "v2 is rejected"),
    ],
)
def test_only_what_is_worse_is_called_so(version: ModelVersion, share: dict[str, float], heading: str) -> None:
    evaluation = Evaluation.objects.get()
    evaluation.verdict = Evaluation.Verdict.REJECT
    evaluation.report |= {"guards": {}, "evidence": [{**FRESH, "share": share}]}
    assert sentence(evaluation).heading == heading


@pytest.mark.database
def test_what_only_ranks_stored_answers_is_drawn_around_the_same_line(version: ModelVersion) -> None:
    evaluation = Evaluation.objects.get()
    evaluation.report = {"difference": {"value": 0.2, "low": -0.1, "high": 0.4}}
    (bar,) = bars(evaluation)
    assert (bar.low, bar.value, bar.high, bar.colour, bar.decides) == (45.0, 60.0, 70.0, "warn", True)
    assert "+0.20 (−0.10 to +0.40)" in bar.text


def test_answers_can_be_those_that_changed_or_got_worse(staff: Client, version: ModelVersion) -> None:
    def prompts(which: str) -> set[str]:
        return {row["prompt"] for row in staff.get(f"{PAGE}?answers={which}").context["answers"]}

    assert (prompts(""), prompts("changed"), prompts("worse")) == ({"q1", "q2", "q3"}, {"q1", "q3"}, {"q3"})


def test_a_guard_rail_that_broke_is_open_and_first(staff: Client, version: ModelVersion) -> None:
    text = staff.get(PAGE).content.decode()
    assert text.index("Broken: It says things in words") < text.index("Kept: It answers")
    assert text.count("<details open>") == 1


def test_only_staff_with_the_permission_see_it(client: Client, alice, version: ModelVersion) -> None:
    client.force_login(alice)
    assert client.get(PAGE).status_code == 403
    assert client.post(PAGE, {"action": "promote"}).status_code == 403


@pytest.mark.database
def test_it_is_put_into_use_and_taken_back(staff: Client, version: ModelVersion, agent: Agent) -> None:
    assert (
        "Nothing was changed: nothing serves v2 yet"
        in staff.post(PAGE, {"action": "promote"}, follow=True).content.decode()
    )
    Deployment.objects.create(agent=agent, version=version, target="openai", url="http://127.0.0.1:9")
    assert "support-chat uses v2 now." in staff.post(PAGE, {"action": "promote"}, follow=True).content.decode()
    assert Deployment.champion(agent) == version
    assert AuditEvent.objects.filter(actor="user:bob", action="promoted").exists()
    assert "its base model now" in staff.post(PAGE, {"action": "roll_back"}, follow=True).content.decode()
    assert Deployment.champion(agent) is None
    assert "not in use any more" in staff.post(PAGE, {"action": "roll_back"}, follow=True).content.decode()
    assert "unknown action" in staff.post(PAGE, {"action": "delete"}, follow=True).content.decode()


@pytest.mark.database
def test_a_version_with_a_file_is_served_by_the_queue_for_whoever_asked(
    staff: Client, agent: Agent, data_dir: Path, monkeypatch: pytest.MonkeyPatch, django_capture_on_commit_callbacks
) -> None:
    Agent.objects.update(deploy_target="llama_cpp", export_quantization="q8_0")
    version = exported(agent, "v2", data_dir).version
    with django_capture_on_commit_callbacks(execute=True):
        answer = staff.post(PAGE, {"action": "serve"}, follow=True).content.decode()
    assert "v2 will be served in a moment" in answer
    assert "But nothing works at the moment: start the queue" in answer
    [task] = OrmQ.objects.all()
    assert (task.task["func"], task.task["args"]) == ("rl.tasks.deploy_version", (version.pk, "user:bob"))
    asked = []

    def deploy(*parts: Any, **options: Any) -> Deployment:
        asked.append((*parts, options, audit.actor()))
        return Deployment(model_name="support-chat:v2")

    monkeypatch.setattr("rl.serving.overview.deploy", deploy)
    assert tasks.deploy_version(*task.task["args"]) == "support-chat:v2"
    assert asked == [(agent, version, {"target": "llama_cpp"}, "user:bob")]


def test_what_cannot_be_served_by_a_button_shows_the_command(
    staff: Client, version: ModelVersion, agent: Agent
) -> None:
    assert 'value="serve"' not in staff.get(PAGE).content.decode()
    refused = staff.post(PAGE, {"action": "serve"}, follow=True).content.decode()
    assert "v2 has no GGUF file at q8_0 yet" in refused
    Deployment.objects.create(agent=agent, version=version, target="openai", url="http://127.0.0.1:9")
    assert "v2 is served already" in staff.post(PAGE, {"action": "serve"}, follow=True).content.decode()
    assert tasks.deploy_version(version.pk, "user:bob") == ""


@pytest.mark.database
def test_an_experiment_against_the_version_in_use_is_drafted(
    staff: Client, version: ModelVersion, agent: Agent
) -> None:
    first = agent.versions.get(name="v1")
    Deployment.objects.create(agent=agent, version=first, target="openai", url="http://127.0.0.1:9", alias="champion")
    address = staff.post(PAGE, {"action": "compare"})["Location"]
    experiment = Experiment.objects.get()
    assert address == f"/experiments/{experiment.pk}/"
    assert [(arm.version, arm.is_control) for arm in experiment.arms.order_by("pk")] == [
        (first, True),
        (version, False),
    ]
    assert (experiment.state, staff.get(address).status_code) == ("draft", 200)


@pytest.mark.database
@pytest.mark.process
def test_its_files_are_downloaded(staff: Client, agent: Agent, data_dir: Path, charlie) -> None:
    artifact = exported(agent, "v2", data_dir)
    (data_dir / artifact.path).with_suffix(".md").write_text("---\nlicense: mit\n---\n# <b>A card</b>\n\n**bold**")
    text = staff.get(PAGE).content.decode()
    address = f"{PAGE}files/{artifact.pk}/v2.gguf"
    assert f'href="{address}"' in text
    assert "&lt;b&gt;A card" in text
    assert "<strong>bold</strong>" in text
    assert "license: mit" not in text
    answer = staff.get(address)
    assert b"".join(answer.streaming_content) == (data_dir / artifact.path).read_bytes()  # type: ignore[attr-defined]
    assert staff.get(f"{PAGE}files/{artifact.pk}/v2.md").status_code == 404
    staff.force_login(charlie)
    assert staff.get(address).status_code == 403


def test_files_elsewhere_are_not_given(agent: Agent, data_dir: Path, tmp_path_factory) -> None:
    other = tmp_path_factory.mktemp("elsewhere") / "secret.txt"
    other.write_text("secret")
    folder = data_dir / "models"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "link.gguf").symlink_to(other)
    version = make_version(agent, "v2")
    for kind, path in (("gguf", str(other)), ("lora", "../secret.txt"), ("onnx", "models/link.gguf")):
        artifact = Artifact.objects.create(version=version, kind=kind, path=path, size_bytes=1, sha256="0" * 64)
        assert [find_file(artifact, name) for name in ("secret.txt", "link.gguf", "")] == [None] * 3
