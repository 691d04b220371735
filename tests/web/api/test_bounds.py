"""No call reads, writes or answers without a bound. Every address of the API and of the gateway is in one of two tables:
lists and bulk calls with a test that goes over their bound, the others with what the single row is that they are about.
"""

import asyncio
import json
from collections.abc import Callable
from datetime import timedelta
from types import SimpleNamespace
from typing import Any, Final
from uuid import uuid4

import pytest
from django.http import HttpResponse
from django.test import Client
from django.urls import get_resolver
from django.utils import timezone

from rl.collect.feedback import waiting
from rl.from_systems.command_center import api as command_center
from rl.from_systems.n3 import calls as n3
from rl.from_systems.ocd.calls import base as ocd
from rl.models import Agent, Experiment, Feedback, ModelVersion, Trace, TrainingRun, WaitingRating
from rl.models.tuning import TuningJob, UploadedFile
from rl.serving.dialects.known import DIALECTS
from rl.serving.gateway import app as gateway
from rl.serving.gateway import retrieval
from rl.serving.gateway.routing import KnownAgent, Served, Snapshot
from rl.serving.gateway.stored import StoredAnswer
from rl.web.api import feedback, pagination, parsers
from rl.web.api.auth import forget
from tests.collect.otlp.make_spans import body, chat, span
from tests.conftest import make_trace
from tests.web.api.conftest import Caller, assert_problem, key_for
from tests.web.api.test_scopes import patterns

PAGE: Final = "http://localhost:3100"
pytestmark = pytest.mark.django_db


class World:
    """Somebody with every scope, and a page of Command Center's without a key."""

    def __init__(self, agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
        self.agent, self.patch = agent, monkeypatch.setattr
        self.server = Caller(key_for(agent))
        self.page = Page()

    def store(self, number: int, **fields: Any) -> list[Trace]:
        prompt = [{"role": "user", "content": "q"}]
        rows = [Trace(agent=self.agent, prompt=prompt, **{"response": "a", **fields}) for _ in range(number)]
        return Trace.objects.bulk_create(rows)

    def judge(self, trace: Trace, number: int, **fields: Any) -> None:
        said = {"kind": "outcome", "metric": "m", "raw_value": 1.0, **fields}
        rows = [Feedback(agent=self.agent, trace=trace, rater=f"r{at}", **said) for at in range(number)]
        Feedback.objects.bulk_create(rows)


class Page:
    def __init__(self) -> None:
        self.client = Client(headers={"origin": PAGE})

    def get(self, path: str) -> HttpResponse:
        return self.client.get(path)

    def post(self, path: str, sent: Any) -> HttpResponse:
        return self.client.post(path, json.dumps(sent), content_type="application/json")


@pytest.fixture
def world(agent: Agent, settings, monkeypatch) -> World:
    settings.COMMAND_CENTER_ORIGINS = {PAGE: ""}
    settings.API_REQUESTS_PER_MINUTE = 10_000
    forget()
    return World(agent, monkeypatch)


# --- what is a list ----------------------------------------------------------------------------------------------------


def pages_of(world: World, path: str, most: int) -> list[dict[str, Any]]:
    """All rows, of pages of at most so many."""
    rows: list[dict[str, Any]] = []
    link: str | None = path
    while link:
        answer = world.server.get(link)
        assert answer.status_code == 200, answer.content
        document = answer.json()
        assert 1 <= len(document["results"]) <= most
        rows += document["results"]
        link = document["next"]
    return rows


def list_traces(world: World) -> None:
    world.store(201)
    assert len(pages_of(world, "/api/v1/traces/?limit=999999", 200)) == 201
    Trace.objects.all().delete()
    large = {trace.pk for trace in world.store(3, response="x" * 2_100_000)}
    rows = pages_of(world, "/api/v1/traces/?limit=200", 1)
    assert {row["id"] for row in rows} == {str(pk) for pk in large}
    assert len(rows) == 3


def list_feedback(world: World) -> None:
    trace = make_trace(world.agent)
    world.judge(trace, 201)
    assert len(pages_of(world, "/api/v1/feedback/?limit=999999", 200)) == 201
    world.judge(trace, 3, kind="correction", text="x" * 2_100_000)
    assert len(pages_of(world, "/api/v1/feedback/?kind=correction&limit=200", 1)) == 3


def read_trace(world: World) -> None:
    trace = make_trace(world.agent)
    world.judge(trace, 250)
    document = world.server.get(f"/api/v1/traces/{trace.pk}/").json()
    assert (len(document["feedback"]), document["feedback_count"]) == (200, 250)
    world.judge(trace, 3, kind="correction", text="x" * 2_100_000)
    assert len(world.server.get(f"/api/v1/traces/{trace.pk}/").json()["feedback"]) == 1


def list_ratings(world: World) -> None:
    wait(world, command_center.MOST_ROWS + 1)
    first = world.page.get("/api/ratings/")
    assert (len(first.json()), first["X-Total-Count"]) == (command_center.MOST_ROWS, "5001")
    link = first["Link"].split(">")[0].removeprefix("<")
    second = world.page.get(link)
    assert (len(second.json()), second.has_header("Link")) == (1, False)
    assert {row["id"] for row in first.json()}.isdisjoint(row["id"] for row in second.json())
    assert world.page.get("/api/ratings/?limit=5001").status_code == 400
    WaitingRating.objects.all().delete()
    wait(world, 1100, notes="x" * 4000)
    answer = world.page.get("/api/ratings/")
    assert (len(answer.json()), answer["X-Total-Count"]) == (999, "1100")
    assert answer.has_header("Link")


def wait(world: World, number: int, **fields: Any) -> None:
    about = {"rater": "device:x", "value": 1.0, "rated_at": timezone.now(), **fields}
    WaitingRating.objects.bulk_create(WaitingRating(entry_id=f"e{at}", **about) for at in range(number))


def list_history(world: World) -> None:
    run = TrainingRun.objects.create(agent=world.agent, method="dpo", state="failed", error="x" * 100_000)
    path = f"/api/layer2/rl-history/?agent={world.agent.name}"
    assert len(world.page.get(path).json()["history"][0]["error"]) == 2000
    assert world.page.get(f"{path}&limit=501").status_code == 400
    assert run.pk == world.page.get(f"{path}&limit=500").json()["history"][0]["run"]


def list_versions(world: World) -> None:
    fields = {"agent": world.agent, "base_model": "tiny", "feedback_count": 1}
    ModelVersion.objects.bulk_create(ModelVersion(name=f"v{at}", **fields) for at in range(201))
    assert len(pages_of(world, "/api/v1/versions/?limit=999999", 200)) == 201


def list_agents(world: World) -> None:
    Agent.objects.bulk_create(Agent(name=f"agent-{at}") for at in range(200))
    world.server = Caller(key_for(None))
    assert len(pages_of(world, "/api/v1/agents/?limit=999999", 200)) == Agent.objects.count()


def list_experiments(world: World) -> None:
    Experiment.objects.bulk_create(Experiment(agent=world.agent, name=f"trial {at}") for at in range(201))
    assert len(pages_of(world, "/api/v1/experiments/?limit=999999", 200)) == 201


def list_runs(world: World) -> None:
    TrainingRun.objects.bulk_create(TrainingRun(agent=world.agent, method="dpo", state="failed") for _ in range(201))
    assert len(pages_of(world, "/api/v1/runs/?limit=999999", 200)) == 201


def list_policies(world: World) -> None:
    world.patch(n3, "MOST_POLICIES", 2)
    fields = {"agent": world.agent, "base_model": "tiny", "feedback_count": 1}
    ModelVersion.objects.bulk_create(ModelVersion(name=f"v{at}", **fields) for at in range(3))
    assert len(world.server.get(f"/api/policies/{world.agent.name}/?limit=999999").json()) == 2


def decide(world: World, number: int, text: str = "x") -> None:
    rewards = {"decision": {"value": 1.0, "details": {"reward": 1.0}}}
    world.store(number, action={"a": text}, state={"s": 1}, rewards=rewards)


def list_decisions(path: str) -> Callable[[World], None]:
    def check(world: World) -> None:
        decide(world, 3, "x" * 1000)
        world.patch(ocd, "MOST", 2)
        asked = f"{path}?agentType={world.agent.name}"
        few = world.server.get(f"{asked}&limit=999999")
        assert few.status_code == 200
        assert len(few.content.splitlines()) <= 2 if "file" in path else len(few.json()) == 2
        world.patch(ocd, "LARGEST", 1500)
        assert_problem(world.server.get(asked), 413, "too much for one answer", "limit")
        world.patch(ocd, "LARGEST", 10_000)
        assert world.server.get(f"{asked}&limit=1").status_code == 200
        world.patch(ocd, "MOST_EVENTS", 2)
        world.judge(Trace.objects.order_by("-occurred_at", "id")[0], 3)
        assert_problem(world.server.get(asked), 413, "3 feedback events")

    return check


def compare_decisions(world: World) -> None:
    for at in range(103):
        world.store(1, action={"a": 1}, details={"decision": {"modelVersion": f"v{at}"}})
    answer = world.server.get(f"/api/training/ab-test?agentType={world.agent.name}")
    assert len(answer.json()["versions"]) == 100


def read_statistics(world: World) -> None:
    calls = [{"tool_name": f"tool {at}"} for at in range(600)]
    world.store(1, tool_calls=calls)
    path = f"/api/training/stats/?agentType={world.agent.name}"
    newest = world.server.get(path).json()["newest"]
    assert (newest["unique_tools_used"], len(newest["tools_list"])) == (600, 500)
    world.store(3, response="x" * 2_100_000)
    assert world.server.get(path).json()["newest"]["traces"] == 1
    assert world.server.get(path).json()["total_traces"] == 4


def list_items(world: World) -> None:
    messages = [{"role": "user", "content": str(at)} for at in range(151)]
    answer = StoredAnswer(uuid4(), Trace(), messages, None)

    async def find(request: Any) -> StoredAnswer:
        return answer

    def ask(**query: str) -> dict[str, Any]:
        request = SimpleNamespace(query_params=query)
        document: dict[str, Any] = json.loads(asyncio.run(retrieval.input_items(request)).body)  # type: ignore[arg-type]
        return document

    world.patch(retrieval, "_find", find)
    first = ask(limit="100", order="asc")
    rest = ask(limit="100", order="asc", after=first["last_id"])
    assert ([len(page["data"]) for page in (first, rest)], first["has_more"], rest["has_more"]) == (
        [100, 50],
        True,
        False,
    )
    with pytest.raises(gateway.Refusal, match="1 to 100"):
        ask(limit="101")


def list_models(world: World) -> None:
    served = Served(1, "v1", upstream=SimpleNamespace())  # type: ignore[arg-type]
    known = {f"a{at}": KnownAgent(at, f"a{at}", timezone.now(), "", 1, (served,)) for at in range(3)}

    def ask(**query: str) -> dict[str, Any]:
        async def caller(request: Any, *scopes: Any) -> Any:
            return SimpleNamespace(agent_id=None, is_secret=True)

        state = SimpleNamespace(caller=caller, table=SimpleNamespace(snapshot=Snapshot(known)))
        request = SimpleNamespace(app=SimpleNamespace(state=SimpleNamespace(gateway=state)), query_params=query)
        document: dict[str, Any] = json.loads(asyncio.run(gateway.models(request)).body)  # type: ignore[arg-type]
        return document

    world.patch(gateway, "MOST_MODELS", 4)
    first, second = ask(), ask(after="A1@V1")
    assert ([row["id"] for row in first["data"]], first["has_more"]) == (["a0", "a0@v1", "a1", "a1@v1"], True)
    assert ([row["id"] for row in second["data"]], second["has_more"]) == (["a2", "a2@v1"], False)
    with pytest.raises(gateway.Refusal, match="no model"):
        ask(after="nobody")


# --- what takes many ---------------------------------------------------------------------------------------------------


def rate_in_bulk(world: World) -> None:
    def send(number: int) -> HttpResponse:
        ratings = {f"e{at}": {"rating": "up"} for at in range(number)}
        return world.page.post("/api/ratings/bulk/", {"ratings": ratings, "device_id": "d"})

    refusal = send(501)
    assert (refusal.status_code, list(refusal.json())) == (413, ["error"])
    assert "at most 500 ratings at a time, not 501; send them in parts" in refusal.json()["error"]
    assert not WaitingRating.objects.exists()
    assert send(500).json() == {"created": 500, "updated": 0, "total": 500}
    world.patch(waiting, "MOST", 502)
    document = world.page.post("/api/ratings/bulk/", {"ratings": {f"f{at}": {} for at in range(4)}}).json()
    assert (document["created"], len(document["rejected"])) == (2, 2)
    assert "too many ratings wait" in document["rejected"][0]["reason"]
    assert WaitingRating.objects.count() == 502


def rate_one_entry(world: World) -> None:
    def rate(entry_id: str, device_id: str = "d") -> int:
        now = timezone.now().isoformat()
        sent = {"entry_id": entry_id, "rating": "up", "rated_at": now, "device_id": device_id}
        return world.page.post("/api/ratings/", sent).status_code

    world.patch(waiting, "MOST_OF_ANSWER", 2)
    assert [rate("e", device) for device in "abcb"] == [201, 201, 429, 200]
    world.patch(waiting, "MOST", 2)
    assert rate("f") == 429
    WaitingRating.objects.update(updated_at=timezone.now() - timedelta(days=31))
    assert rate("f") == 201
    assert WaitingRating.objects.count() == 1


def sync_ratings(world: World) -> None:
    sent = {"device_id": "d", "ratings": {f"e{at}": {"rating": "up"} for at in range(5001)}}
    assert_problem(world.server.post("/api/v1/ratings/sync/", sent), 413, "at most 5000", "in parts")


def store_traces(world: World) -> None:
    item = {"agent": world.agent.name, "prompt": "q", "response": "a"}
    assert_problem(world.server.post("/api/v1/traces/", [item] * 1001), 400, "1 to 1000")
    for name in ("tool_calls", "reasoning_steps", "tasks"):
        assert_problem(world.server.post("/api/v1/traces/", {**item, name: [{}] * 10_001}), 400, name, "at most 10000")
    message = {"role": "user", "content": "q"}
    assert_problem(world.server.post("/api/v1/traces/", {**item, "prompt": [message] * 1001}), 400, "at most 1000")


def send_feedback(world: World) -> None:
    path, kind = "/api/v1/feedback/", "application/x-ndjson"
    assert_problem(world.server.raw(path, "{}\n" * 5001, kind), 413, "at most 5000 lines")
    trace = make_trace(world.agent)
    line = json.dumps({"kind": "correction", "trace": str(trace.pk), "rater": "r", "text": "b"})
    world.patch(feedback, "SECONDS", -1.0)
    late = world.server.raw(path, f"{line}\n{line}", kind).json()["results"]
    assert [row["status"] for row in late] == [503, 503]
    assert "send it again" in late[0]["problem"]["detail"]
    assert not Feedback.objects.exists()
    said = {"trace": str(trace.pk), "rater": "r", "scale": "thumb", "value": 1, "tags": [1] * 100_000}
    refusal = world.server.post(path, said)
    assert_problem(refusal, 400, "at most 20 elements, not 100000")
    assert len(refusal.content) < 1000


def store_decisions(world: World) -> None:
    item = {"state": {"a": 1}, "action": {"b": 1}}
    assert_problem(world.server.post("/api/decisions/bulk/", [item] * 1001), 400, "1 to 1000")


def store_decision(world: World) -> None:
    sent = {"state": 1, "action": 2, "outcomeMetrics": {f"m{at}": at for at in range(101)}}
    assert_problem(world.server.post("/api/decisions/", sent), 400, "takes 100 at a time")


def observe_decision(world: World) -> None:
    world.store(1, action={"a": 1}, external_id="x")
    sent = {"outcomeMetrics": {f"m{at}": at for at in range(101)}}
    assert_problem(world.server.post("/api/decisions/x/outcomes/", sent), 400, "takes 100 at a time")


def reward_decisions(world: World) -> None:
    sent = {"decisionIds": [f"d{at}" for at in range(501)]}
    assert_problem(world.server.post("/api/training/decisions", sent), 400, "at most 500 elements, not 501")


def reward_pending(path: str) -> Callable[[World], None]:
    def check(world: World) -> None:
        decide(world, 101)
        for trace in Trace.objects.all():
            world.judge(trace, 1)
        answer = world.server.post(path).json()
        assert answer["processed"] <= 100
        assert Trace.objects.filter(reward_pending=True).exists()

    return check


def judge_answer(world: World) -> None:
    sent = {"query_id": "x", "rating": "up", "interactions": [{"action": "a"}] * 51}
    refusal = world.page.post("/api/layer2/feedback/", sent)
    assert (refusal.status_code, "at most 50 elements" in refusal.json()["error"]) == (400, True)


def export_spans(path: str) -> Callable[[World], None]:
    def export(world: World) -> None:
        sent = body(*[span(chat("q"), id=at + 1) for at in range(2)])
        world.patch("rl.collect.otlp.wire.MOST_SPANS", 1)
        assert world.server.raw(path, sent, "application/x-protobuf").status_code == 400

    return export


def send_too_many(path: str, sent: object) -> Callable[[World], None]:
    def send(world: World) -> None:
        assert_problem(world.server.post(path, sent), 400, "at most")

    return send


def list_files(world: World) -> None:
    for number in range(3):
        UploadedFile.objects.create(agent=world.agent, filename=str(number), purpose="evals", bytes=0)
    listed = world.server.get("/v1/files", limit=2).json()
    assert (len(listed["data"]), listed["has_more"]) == (2, True)
    assert world.server.get("/v1/files", limit=10_001).status_code == 400


def make_job(world: World, seed: int) -> TuningJob:
    method = {"type": "dpo", "dpo": {"hyperparameters": {}}}
    return TuningJob.objects.create(agent=world.agent, model="tiny", method=method, seed=seed)


def list_jobs(world: World) -> None:
    for number in range(3):
        make_job(world, number)
    listed = world.server.get("/v1/fine_tuning/jobs", limit=2).json()
    assert (len(listed["data"]), listed["has_more"]) == (2, True)
    assert world.server.get("/v1/fine_tuning/jobs", limit=101).status_code == 400


def list_parts_of_job(part: str) -> Callable[[World], None]:
    def list_parts(world: World) -> None:
        url = f"/v1/fine_tuning/jobs/{make_job(world, 1).pk}/{part}"
        assert len(world.server.get(url, limit=1).json()["data"]) <= 1
        assert world.server.get(url, limit=101).status_code == 400

    return list_parts


BOUNDS: dict[str, Callable[[World], None]] = {
    "GET TraceList": list_traces,
    "POST TraceList": store_traces,
    "GET TraceDetail": read_trace,
    "GET FeedbackList": list_feedback,
    "POST FeedbackList": send_feedback,
    "GET TrainingStats": read_statistics,
    "POST RatingBulkSync": sync_ratings,
    "GET EntryRatings": list_ratings,
    "POST EntryRatings": rate_one_entry,
    "POST BulkRatings": rate_in_bulk,
    "POST AnswerFeedback": judge_answer,
    "GET RunHistory": list_history,
    "GET PolicyList": list_policies,
    "GET VersionList": list_versions,
    "GET AgentList": list_agents,
    "GET ExperimentList": list_experiments,
    "GET RunList": list_runs,
    "POST DecisionList": store_decision,
    "POST DecisionBulk": store_decisions,
    "POST DecisionOutcomes": observe_decision,
    "GET TrainingDecisions": list_decisions("/api/training/decisions"),
    "POST TrainingDecisions": reward_decisions,
    "GET ExportMessages": list_decisions("/api/training/export"),
    "GET ExportFile": list_decisions("/api/training/export-file"),
    "GET CompareVersions": compare_decisions,
    "POST PendingRewards": reward_pending("/api/training/calculate-pending"),
    "POST Outcomes": reward_pending("/api/training/outcomes"),
    "POST TrackOutcomes": reward_pending("/api/training/track-outcomes"),
    "POST OtlpTraces": export_spans("/v1/traces"),
    "POST Observations": export_spans("/api/public/otel/v1/traces"),
    "POST ScoreList": send_too_many("/api/public/scores", [{}] * 1001),
    "POST EventBatch": send_too_many("/api/public/ingestion", {"batch": [{}] * 1001}),
    "POST FeedbackRows": send_too_many("/api/openwebui/feedback/", [{}] * 101),
    "GET FileList": list_files,
    "GET JobList": list_jobs,
    "GET JobEvents": list_parts_of_job("events"),
    "GET JobCheckpoints": list_parts_of_job("checkpoints"),
    "GET /v1/models": list_models,
    "GET /v1/responses/{name}/input_items": list_items,
}
SINGLE: dict[str, str] = {
    "POST TokenList": "one token",
    "GET FeedbackDetail": "one event",
    "POST FeedbackRetract": "one event",
    "POST OwnRatingRetract": "one rating",
    "GET OriginCheck": "yes or no",
    "GET ChoiceList": "the values of one agent: answer_values and listed answers have a bound",
    "POST RatingList": "one rating",
    "GET RunDetail": "one run",
    "POST RunList": "one run",
    "GET AgentDetail": "one agent",
    "GET ExperimentDetail": "one experiment: its arms are few, each made by hand",
    "GET RunEvents": "one run, once a second for an hour at most",
    "GET VersionDetail": "one version",
    "POST VersionServe": "one version",
    "POST VersionPromote": "one version",
    "POST RollBack": "one agent",
    "POST InstructionList": "one version",
    "POST RunCancel": "one run",
    "POST CalculatePending": "a number; the queue does the work",
    "GET Status": "one agent",
    "POST PolicyFeedback": "one answer and its score",
    "POST TrainPolicy": "one run",
    "GET PolicyRun": "one run",
    "GET ProjectList": "one project",
    "POST DecisionFeedback": "one decision",
    "PATCH OcdFeedback": "one decision",
    "PATCH StatusChangeFeedback": "one decision",
    "GET PendingRewards": "a number",
    "GET Outcomes": "a number",
    "GET TrackOutcomes": "a number",
    "GET DecisionStats": "figures, and a count for each agent with decisions",
    "GET Description": "a document that the code alone determines",
    "GET DescriptionPage": "a page that the code alone determines",
    "POST FileList": "one file, whose size has a bound: tests/web/front/test_uploads.py",
    "GET FileCall": "one file",
    "DELETE FileCall": "one file",
    "GET FileContent": "one file, which goes out in pieces",
    "POST UploadList": "one upload",
    "POST UploadParts": "one part, whose size has a bound: tests/web/front/test_uploads.py",
    "POST UploadComplete": "one upload, whose parts have a bound",
    "POST UploadCancel": "one upload",
    "POST JobList": "one job, whose file has a bound",
    "GET JobDetail": "one job",
    "POST JobCancel": "one job",
    "POST JobPause": "one job",
    "POST JobResume": "one job",
    "POST GraderRun": "one answer",
    "POST GraderValidate": "one grader, whose parts have a bound",
    "GET CheckpointPermissions": "none",
    "POST CheckpointPermissions": "none",
    "DELETE CheckpointPermission": "none",
    "DELETE TunedModel": "one model",
    **{f"POST {dialect.path}": "one answer" for dialect in DIALECTS},
    "POST /v1/messages/count_tokens": "a number",
    "POST /v1/conversations": "a name",
    "POST /v1/embeddings": "as many vectors as there are texts, at most 256: tests/serving/gateway/test_embeddings.py",
    "GET /v1/responses/{name}": "one answer",
    "DELETE /v1/responses/{name}": "one answer",
    "GET /v1/models/{name}": "one model",
}


def addresses() -> list[str]:
    walked: dict[str, None] = {}
    for _, view in patterns(get_resolver().url_patterns):
        for method in sorted(set(view().allowed_methods) - {"OPTIONS", "HEAD"}):
            walked[f"{method} {view.__name__}"] = None
    for route in gateway.application.routes:
        for method in sorted(set(route.methods or ()) - {"HEAD"}):  # type: ignore[attr-defined]
            walked[f"{method} {route.path.rstrip('/')}"] = None  # type: ignore[attr-defined]
    return list(walked)


def test_every_address_has_its_bound_or_is_about_one_row():
    assert set(addresses()) == BOUNDS.keys() | SINGLE.keys()
    assert BOUNDS.keys().isdisjoint(SINGLE)


@pytest.mark.database
@pytest.mark.parametrize("address", BOUNDS)
def test_a_list_and_a_bulk_end_at_their_bound(world: World, address: str):
    BOUNDS[address](world)


def writing() -> list[tuple[str, str]]:
    ignores_its_body = {"RunCancel", "UploadCancel", "VersionServe", "VersionPromote"}
    takes_forms = {"FileList", "UploadParts"}
    return [
        (method, path)
        for path, view in patterns(get_resolver().url_patterns)
        for method in sorted({"POST", "PATCH"} & set(view().allowed_methods))
        if view.__name__ not in ignores_its_body | takes_forms
    ]


@pytest.mark.parametrize(("method", "path"), writing())
def test_every_body_is_bounded_in_bytes_depth_and_lists(world: World, settings, monkeypatch, method: str, path: str):
    def send(sent: bytes) -> int:
        return world.server.client.generic(method, path, sent, content_type="application/json").status_code

    def over(sent: bytes, *statuses: int) -> None:
        assert send(sent) in statuses, sent[:100]

    name_everything_x(world)
    is_otlp = path.removeprefix("/api/public/otel") == "/v1/traces"
    over(b'{"a":' + b"[" * 2000 + b"]" * 2000 + b"}", 400)
    if not is_otlp:  # counts them in its own way: tests/web/api/test_otlp.py
        monkeypatch.setattr(parsers, "MOST_CONTAINERS", 100)
        over(b'{"a":[' + b"{}," * 100 + b"{}]}", 400)
    settings.DATA_UPLOAD_MAX_MEMORY_SIZE = settings.MAX_OTLP_REQUEST_BYTES = 2000
    over(b'{"a":"' + b"x" * 3000 + b'"}', 413)


def name_everything_x(world: World) -> None:
    """And give it the number 1: what an address names is there, so that its body is looked at."""
    agent = Agent.objects.create(name="x")
    world.server = Caller(key_for(None))
    world.agent = agent
    [trace] = world.store(1, action={"a": 1}, external_id="x", details={"decision": {"statusChangeId": "x"}})
    Feedback.objects.create(pk=1, agent=agent, trace=trace, kind="outcome", metric="m", raw_value=1, rater="r")


READS: Final = sorted({path for path, view in patterns(get_resolver().url_patterns) if "GET" in view().allowed_methods})
FILTERS: Final = ("agent", "agentType", "rater", "external_id", "session_id", "prompt_key", "cursor", "source", "trace")


@pytest.mark.database
@pytest.mark.parametrize("path", READS)
def test_filters_of_any_length_are_answered_with_little(world: World, path: str):
    decide(world, 3)
    for name in FILTERS:
        answer = world.server.get(path, **{name: "x" * 5000})
        assert answer.status_code in (200, 400, 404), (name, answer.content[:300])
        assert answer.status_code == 200 or len(answer.content) < 20_000


def test_ratings_of_one_call_wait_in_one_transaction(world: World, django_assert_max_num_queries):
    """A commit for each would take minutes on a slow disk."""
    ratings = {f"e{at}": {"rating": "up"} for at in range(100)}
    with django_assert_max_num_queries(20 + 100 * 4):
        world.page.post("/api/ratings/bulk/", {"ratings": ratings})


def test_a_row_larger_than_a_page_is_a_page(world: World):
    keys = [(1, 10), (2, 3), (3, 3), (4, 3)]
    assert pagination.within(keys, lambda key: key[1], 5) == keys[:1]
    assert pagination.within(keys[1:], lambda key: key[1], 6) == keys[1:3]
    assert pagination.within([], len, 5) == []
