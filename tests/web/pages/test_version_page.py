"""The page of a version: is it better, what it changed, where it comes from, its files, and putting it into use."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from django_q.models import OrmQ

from rl import tasks
from rl.models import Agent, Artifact, AuditEvent, Deployment, Evaluation, Experiment, ModelVersion, TrainingRun
from rl.operations import audit
from rl.web.agent_steps import look_at, why_queued
from rl.web.pages.versions import find_file
from rl.web.version_figures import bars, sentence
from tests.admin.records import make_evaluation, make_loop, make_run, make_training_set, make_version
from tests.conftest import make_trace
from tests.dataset_builder.ratings import rate, rated
from tests.serving.exported import exported

PAGE = "/versions/support-chat/v2/"
FRESH = {"kind": "fresh", "share": {"value": 0.71, "low": 0.58, "high": 0.82}, "prompts": 40}
AGENT_PAGE = "/agents/support-chat/"


def sample(prompt: str, old: str, new: str, *errors: str) -> dict[str, Any]:
    models = {"base": "of the base model", "current": old}
    answered = {name: {"answer": text, "errors": []} for name, text in models.items()}
    return {"prompt": prompt, **answered, "new": {"answer": new, "errors": list(errors)}}


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


def group(value: str, worse: bool) -> dict[str, Any]:
    name = {"group": f"language = {value}", "prompts": 16}
    return {**name, "figures": "12% (3% to 38%)", "text": "", "worse": worse, "as_good": not worse}


def test_groups_stand_in_a_table_and_the_heading_names_those_that_it_is_worse_for(
    staff: Client, version: ModelVersion
) -> None:
    evaluation = Evaluation.objects.get()
    evaluation.report |= {"groups": {"rows": [group("<b>", True), group("en", False)], "left_out": 3}, "guards": {}}
    evaluation.verdict = "undecided"
    evaluation.save()
    text = staff.get(PAGE).content.decode()
    assert "<h2>v2 is better on the whole, and worse for language = &lt;b&gt;</h2>" in text
    assert 'language = &lt;b&gt; <span class="badge bad">worse</span>' in text
    assert text.count("12% (3% to 38%)") == 2
    assert "3 more with too few prompts are not looked at" in text
    evaluation.report |= {"evidence": [{**FRESH, "share": {"value": 0.5, "low": 0.4, "high": 0.6}}]}
    assert sentence(evaluation).heading == "v2 is worse for language = <b>"


@pytest.mark.database
def test_what_only_ranks_stored_answers_is_drawn_around_the_same_line(version: ModelVersion) -> None:
    evaluation = Evaluation.objects.get()
    evaluation.report = {"difference": {"value": 0.2, "low": -0.1, "high": 0.4}}
    (bar,) = bars(evaluation)
    assert (bar.low, bar.value, bar.high, bar.colour, bar.decides) == (45.0, 60.0, 70.0, "warn", True)
    assert "+20.0 points (−10.0 to +40.0)" in bar.text


def test_answers_can_be_those_that_changed_or_where_it_made_a_mistake(staff: Client, version: ModelVersion) -> None:
    def prompts(which: str) -> set[str]:
        return {row.prompt for row in staff.get(f"{PAGE}?answers={which}").context["answers"]}

    assert (prompts(""), prompts("changed"), prompts("lost")) == ({"q1", "q2", "q3"}, {"q1", "q3"}, {"q3"})


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
    card = staff.get(f"{PAGE}files/{artifact.pk}/v2.md")
    assert b"A card" in b"".join(card.streaming_content)  # type: ignore[attr-defined]
    assert staff.get(f"{PAGE}files/{artifact.pk}/v2.json").status_code == 404
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


def test_an_only_agent_needs_no_choice(staff: Client, agent: Agent) -> None:
    assert staff.get("/agents/")["Location"] == AGENT_PAGE
    Agent.objects.create(name="other")
    assert 'href="/agents/other/"' in staff.get("/agents/").content.decode()


@pytest.mark.database
def test_the_step_that_holds_the_loop_back_is_the_only_one_that_is_highlighted(staff: Client, agent: Agent) -> None:
    text = staff.get(AGENT_PAGE).content.decode()
    assert text.count('aria-current="step"') == 1
    assert look_at(agent).bottleneck == "collect"
    make_trace(agent)
    assert look_at(agent).bottleneck == "rate"
    evaluation = make_evaluation(make_version(agent, "v1"), make_training_set(agent), report={"duels": 30})
    assert look_at(agent).bottleneck == "serve"
    Evaluation.objects.filter(pk=evaluation.pk).update(verdict="undecided")
    assert look_at(agent).bottleneck == "judge"
    text = staff.get(AGENT_PAGE).content.decode()
    assert text.count('aria-current="step"') == 1
    assert "v1 is perhaps better" in text
    assert 'href="/rate/support-chat/pairs/">Compare answers' in text
    run = make_run(agent, TrainingRun.State.QUEUED)
    assert look_at(agent).bottleneck == "learn"
    assert f"Run {run.pk}</a> is queued" in staff.get(AGENT_PAGE).content.decode()


def test_a_run_that_waits_for_a_queue_that_does_not_run_says_so(agent: Agent) -> None:
    run = make_run(agent, TrainingRun.State.QUEUED)
    assert why_queued(run) == ""
    run.created_at = timezone.now() - timedelta(minutes=2)
    assert why_queued(run).startswith(f"Run {run.pk} is queued, but qcluster is not running: start the queue")


@pytest.mark.database
def test_the_number_of_queries_does_not_grow_with_the_rows(
    staff: Client, agent: Agent, django_assert_num_queries
) -> None:
    def fill(number: int) -> None:
        make_loop(agent, number)
        Deployment.objects.filter(version__name=f"v{number}").update(alias="champion" if number == 1 else "")

    fill(1)
    staff.get(AGENT_PAGE)
    fill(2)
    with CaptureQueriesContext(connection) as few:
        staff.get(AGENT_PAGE)
    for number in range(3, 8):
        fill(number)
    with django_assert_num_queries(len(few)):
        staff.get(AGENT_PAGE)


@pytest.mark.database
def test_of_right_and_wrong_answers_it_says_how_often_the_version_in_use_is_right(staff: Client, agent: Agent) -> None:
    Agent.objects.update(answer_kind="closed")
    old = make_version(agent, "v1")
    new = make_version(agent, "v2", parent=old)
    Deployment.objects.create(agent=agent, version=new, alias="champion")
    pages = (AGENT_PAGE, "/versions/support-chat/v2/", "/")
    assert all("Right or wrong: nothing judged yet." in staff.get(page).content.decode() for page in pages)
    for version, right in ((old, 1), (new, 2)):
        for number in range(3):
            rate(make_trace(agent, f"Question {number}?", "cash", model_version=version), float(number < right))
    said = "Right in 2 of 3 of its answers that people have judged (v1 before it: 1 of 3)."
    assert all(said in staff.get(page).content.decode() for page in pages)
    assert "Right in 1 of 3 of its answers that people have judged." in (
        staff.get("/versions/support-chat/v1/").content.decode()
    )


def test_of_free_answers_it_says_nothing_of_the_kind(staff: Client, agent: Agent) -> None:
    rate(make_trace(agent), 1)
    make_version(agent, "v1")
    for page in (AGENT_PAGE, "/versions/support-chat/v1/", "/"):
        text = staff.get(page).content.decode()
        assert "Right in" not in text
        assert "nothing judged yet" not in text


@pytest.mark.database
def test_it_says_what_its_answers_keep_to_and_why(staff: Client, agent: Agent) -> None:
    assert "The gateway lets it say anything." in staff.get(AGENT_PAGE).content.decode()
    Agent.objects.update(answer_values=["yes", "<no>"])
    text = staff.get(AGENT_PAGE).content.decode()
    assert "one of these and nothing else (as the agent&#x27;s settings say)" in text
    assert "<li>&lt;no&gt;</li>" in text
    schema = {"type": "object", "properties": {"<team>": {"type": "string"}}}
    Agent.objects.update(answer_values=[], answer_schema=schema)
    text = staff.get(AGENT_PAGE).content.decode()
    assert "keep to a JSON schema (as the agent&#x27;s settings say)" in text
    assert "&lt;team&gt;" in text
    Agent.objects.update(keep_to_answers=False)
    assert "<code>keep_to_answers</code> is off" in staff.get(AGENT_PAGE).content.decode()


def test_it_says_that_few_corrections_start_a_run_where_answers_are_right_or_wrong(staff: Client, agent: Agent) -> None:
    for number in range(9):
        rate(make_trace(agent, f"Question {number}?", "cash"), 1)
    assert "9 ratings that no training has seen; 12 start one" in staff.get(AGENT_PAGE).content.decode()
    assert "9 of 12 for the next run" in staff.get("/").content.decode()


@pytest.mark.parametrize("name", ["<script>alert(1)"])
def test_names_are_escaped(staff: Client, name: str) -> None:
    Agent.objects.create(name=name)
    assert "<script>alert" not in staff.get("/agents/%3Cscript%3Ealert(1)/").content.decode()


def test_rare_classes_and_what_a_run_would_choose_are_named(staff: Client, agent: Agent) -> None:
    for number in range(15):
        rated(agent, f"Question {number}?", "<identity>" if number < 3 else "cards", 1)
    text = staff.get(AGENT_PAGE).content.decode()
    assert "3 of `&lt;identity&gt;`: 7 more would help" in text
    assert "answers are closed: 15 accepted answers are 2 distinct ones" in text
    assert "accepted ones are imitated" in text


def test_pages_say_what_a_version_is_told_and_whose_weights_it_has(staff: Client, agent: Agent):
    trained = make_version(agent, "v1")
    told = make_version(agent, "v2", instruction="Answer <b>briefly</b>.", weights=trained, stage="deployed")
    Deployment.objects.create(agent=agent, version=told, target="shared", alias="champion")
    page = " ".join(staff.get(PAGE).content.decode().split())
    assert 'behind the last question: <q dir="auto">Answer &lt;b&gt;briefly&lt;/b&gt;.</q>' in page
    assert 'its weights are those of <a href="/versions/support-chat/v1/">v1</a>' in page
    page = staff.get(AGENT_PAGE).content.decode()
    assert page.count("<q") == 2
    assert "Answer &lt;b&gt;briefly&lt;/b&gt;." in page
