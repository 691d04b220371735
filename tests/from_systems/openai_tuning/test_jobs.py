"""Jobs from the outside, and what the queue makes of them; without training."""

import json
from pathlib import Path
from typing import Any, get_args

import pytest
from openai.types.fine_tuning import FineTuningJob, FineTuningJobEvent
from openai.types.fine_tuning.jobs import FineTuningJobCheckpoint

from rl.base.errors import ExportFailed
from rl.collect.importers.chat import RATER
from rl.dataset_builder import freeze
from rl.from_systems.openai_tuning import job_form, job_work
from rl.from_systems.openai_tuning.job_form import NUMBERS
from rl.lm import checkpoints
from rl.models import (
    Agent,
    ApiKey,
    Deployment,
    Feedback,
    MetricPoint,
    ModelVersion,
    Trace,
    TrainingRun,
    TuningJob,
    UploadedFile,
    run_ended,
)
from rl.models.traces import HELD_OUT, SPLIT
from rl.runs.choosing import RunOptions, require_origins
from rl.runs.run import files_of
from rl.serving.gateway.table import load
from rl.versions.versions import register_pass, version_directory
from tests.admin.records import make_evaluation, make_training_set
from tests.web.api.conftest import Caller, key_for

pytestmark = pytest.mark.django_db
JOBS = "/v1/fine_tuning/jobs"
ASK, TELL = {"role": "user", "content": "Where is my parcel?"}, {"role": "assistant", "content": "delivery"}
GRADER = {
    "type": "string_check",
    "name": "team",
    "input": "{{sample.output_text}}",
    "reference": "{{item.answer}}",
    "operation": "eq",
}
CHAT = {"messages": [ASK, TELL]}
PAIR = {
    "input": {"messages": [ASK]},
    "preferred_output": [TELL],
    "non_preferred_output": [{**TELL, "content": "I like parcels."}],
}


@pytest.fixture
def trainer(data_dir, monkeypatch) -> Caller:
    monkeypatch.setattr(job_work, "LEAST_ROWS", 1)
    return Caller(key_for(None))


def put_file(*rows: Any, purpose: str = "fine-tune", agent: Agent | None = None) -> str:
    body = "".join(json.dumps(row) + "\n" for row in rows).encode()
    file = UploadedFile.objects.create(filename="rows.jsonl", purpose=purpose, bytes=len(body), agent=agent)
    file.path.parent.mkdir(parents=True, exist_ok=True)
    file.path.write_bytes(body)
    return file.pk


def make_job(trainer: Caller, *rows: Any, **fields: Any) -> TuningJob:
    body = {"model": "tiny", "training_file": put_file(*rows or [CHAT]), "suffix": "router", **fields}
    answer = trainer.post(JOBS, body)
    assert answer.status_code == 200, answer.content
    return TuningJob.objects.get(pk=answer.json()["id"])


def shown(trainer: Caller, job: TuningJob) -> FineTuningJob:
    return FineTuningJob.model_validate(trainer.get(f"{JOBS}/{job.pk}").json(), strict=True)


def messages(trainer: Caller, job: TuningJob) -> list[str]:
    return [event["message"] for event in trainer.get(f"{JOBS}/{job.pk}/events").json()["data"]]


def end_run(job: TuningJob, state: TrainingRun.State, **fields: Any) -> TrainingRun:
    job.refresh_from_db()
    TrainingRun.objects.filter(pk=job.run_id).update(state="running", started_at=job.created_at)
    TrainingRun.objects.filter(pk=job.run_id).update(state=state, finished_at=job.created_at, **fields)
    return TrainingRun.objects.get(pk=job.run_id)


def test_a_job_has_every_field_of_the_clients_type(trainer: Caller):
    job = make_job(trainer, metadata={"team": "support"}, seed=7)
    document = trainer.get(f"{JOBS}/{job.pk}").json()
    assert FineTuningJob.model_fields.keys() <= document.keys()
    told = shown(trainer, job)
    assert (told.status, told.seed, told.metadata, told.model) == ("validating_files", 7, {"team": "support"}, "tiny")
    assert told.method is not None
    assert (told.method.type, told.hyperparameters.n_epochs) == ("supervised", "auto")
    assert messages(trainer, job)[-1] == f"Created fine-tuning job: {job.pk}"
    FineTuningJobEvent.model_validate(trainer.get(f"{JOBS}/{job.pk}/events").json()["data"][0], strict=True)


@pytest.mark.database
def test_the_answers_of_its_file_are_the_agents_and_accepted(trainer: Caller):
    job = make_job(trainer)
    assert job_work.prepare(job.pk) == "started"
    trace, said = Trace.objects.get(), Feedback.objects.get()
    assert (trace.agent.name, trace.session_id, trace.source) == ("router", job.training_file, "fine_tuning")
    assert (trace.question, trace.response) == ("Where is my parcel?", "delivery")
    assert (said.trace, said.value, said.rater) == (trace, 1, RATER)
    run = TuningJob.objects.get(pk=job.pk).run
    assert run is not None
    assert (run.method, run.state) == ("sft", "queued")
    assert RunOptions.from_dict(run.options).data.sessions == (job.training_file,)
    assert shown(trainer, job).status == "queued"
    assert job_work.prepare(job.pk) == "nothing waits"  # the queue delivers a task again
    assert (Trace.objects.count(), TrainingRun.objects.count()) == (1, 1)


def test_a_file_that_cannot_be_learned_from_fails_the_job(trainer: Caller, monkeypatch):
    monkeypatch.setattr(job_work, "LEAST_ROWS", 10)
    few, gone = make_job(trainer), make_job(trainer, {"messages": [ASK]}, suffix="other")
    UploadedFile.objects.get(pk=gone.training_file).path.unlink()
    assert job_work.prepare(few.pk) == "failed: the file has 1 rows, and must have at least 10"
    job_work.prepare(gone.pk)
    for job in (few, gone):
        told = shown(trainer, job)
        assert told.error is not None
        assert (told.status, told.error.code, told.error.param) == ("failed", "invalid_training_file", "training_file")
    assert not Trace.objects.exists()


def test_each_answer_with_a_weight_is_learned(trainer: Caller):
    more = [ASK, TELL, {**ASK, "content": "And now?"}, {**TELL, "content": "sales", "weight": 0}]
    calls = {"role": "assistant", "content": None, "tool_calls": [{"id": "c", "function": {"name": "look"}}]}
    result = {"role": "tool", "tool_call_id": "c", "content": "on its way"}
    job_work.prepare(make_job(trainer, {"messages": more}, {"messages": [ASK, calls, result, TELL]}).pk)
    assert [
        [call["tool_name"] for call in trace.tool_calls or []] for trace in Trace.objects.order_by("external_id")
    ] == [
        [],
        ["look"],
    ]
    assert {trace.response for trace in Trace.objects.all()} == {"delivery"}


def test_a_validation_file_is_what_is_held_out(trainer: Caller):
    other = {"messages": [{**ASK, "content": "My card is lost"}, {**TELL, "content": "cards"}]}
    job = make_job(trainer, validation_file=put_file(other))
    job_work.prepare(job.pk)
    held = Trace.objects.get(response="cards")
    assert (held.details[SPLIT], held.session_id) == (HELD_OUT, job.validation_file)
    run = TrainingRun.objects.get()
    assert (run.options["data"]["val_split"], len(run.options["data"]["sessions"])) == (0.0, 2)


def test_preferred_outputs_are_picks_and_trained_by_dpo(trainer: Caller):
    method = {"type": "dpo", "dpo": {"hyperparameters": {"beta": 0.3, "n_epochs": 2, "batch_size": 4}}}
    job_work.prepare(make_job(trainer, PAIR, method=method).pk)
    pick, run = Feedback.objects.get(), TrainingRun.objects.get()
    assert (pick.kind, pick.choice, pick.trace.response) == ("comparison", "left", "delivery")
    assert (run.method, run.config["beta"], run.config["epochs"]) == ("dpo", 0.3, 2)
    assert (run.config["batch_size"], run.config["gradient_accumulation"]) == (4, 1)


def test_the_older_form_has_its_numbers_beside_the_model(trainer: Caller):
    numbers = {"n_epochs": 3, "learning_rate_multiplier": 0.5}
    job = make_job(trainer, hyperparameters=numbers)
    job_work.prepare(job.pk)
    config = TrainingRun.objects.get().config
    assert (config["epochs"], config["learning_rate_multiplier"]) == (3, 0.5)
    assert (shown(trainer, job).hyperparameters.n_epochs, job.method["type"]) == (3, "supervised")


def test_a_job_that_is_sent_again_is_the_same_job(trainer: Caller):
    body, again = json.dumps({"model": "tiny", "training_file": put_file(CHAT)}), {"idempotency-key": "first try"}
    sent = [trainer.client.post(JOBS, body, content_type="application/json", headers=again) for _ in range(2)]
    assert sent[0].json() == sent[1].json()
    other = Caller(key_for(None)).client.post(JOBS, body, content_type="application/json", headers=again)
    assert other.json()["id"] != sent[0].json()["id"]
    assert TuningJob.objects.count() == 2


def test_jobs_of_one_agent_wait_for_each_other(trainer: Caller):
    first, second = make_job(trainer), make_job(trainer, {"messages": [ASK, {**TELL, "content": "sales"}]})
    assert [job_work.prepare(job.pk) for job in (first, second)] == ["started", "waits"]
    assert shown(trainer, second).status == "queued"
    end_run(first, TrainingRun.State.FAILED, error="no memory")
    assert job_work.finish(first.pk) == "started"
    second.refresh_from_db()
    assert second.run is not None
    failed = shown(trainer, first)
    assert failed.error is not None
    assert (failed.status, failed.error.message) == ("failed", "no memory")


def test_a_job_is_settled_when_its_run_ends_also_beside_an_older_one_that_is_paused(trainer: Caller):
    older, job = make_job(trainer), make_job(trainer)
    trainer.post(f"{JOBS}/{older.pk}/pause")
    assert job_work.prepare(job.pk) == "started"
    run_ended.send(TrainingRun, run=end_run(job, TrainingRun.State.FAILED, error="no memory"))
    assert (shown(trainer, job).status, shown(trainer, older).status) == ("failed", "validating_files")


@pytest.fixture
def succeeded(trainer: Caller, monkeypatch) -> TuningJob:
    """Its version was rejected by the gate, and is served all the same."""
    deployed: list[str] = []
    monkeypatch.setattr(job_work, "deploy", lambda agent, version, target: deployed.append(f"{version.name} {target}"))
    job = make_job(trainer, metadata={"team": "support"})
    job_work.prepare(job.pk)
    version = ModelVersion.objects.create(agent=job.agent, name="v1", base_model="tiny", feedback_count=1)
    make_evaluation(version, make_training_set(job.agent, 1), verdict="reject", report={"reason": "It repeats itself."})
    run = end_run(job, TrainingRun.State.SUCCEEDED, version=version, step=20, total_steps=20)
    MetricPoint.objects.create(run=run, step=10, values={"loss": 1.25})
    MetricPoint.objects.create(run=run, step=20, values={"loss": 0.5})
    assert job_work.finish(job.pk) == "nothing waits"
    assert deployed == ["v1 adapter"]
    job.refresh_from_db()
    return job


def test_a_job_whose_version_the_gate_rejects_succeeds_and_says_so(trainer: Caller, succeeded: TuningJob):
    told = shown(trainer, succeeded)
    assert (told.status, told.error) == ("succeeded", None)
    assert told.fine_tuned_model == succeeded.tuned_model == f"ft:tiny:ratchet:router:{succeeded.pk[6:14]}"
    assert told.metadata == {"team": "support", "ratchet_version": "router@v1", "ratchet_verdict": "reject"}
    lines = messages(trainer, succeeded)
    assert lines[0] == "The job has successfully completed"
    assert "Measured: reject. It repeats itself." in lines
    assert "Step 10/20: training loss=1.25" in lines


def test_a_job_can_have_every_status_that_the_client_knows(trainer: Caller, succeeded: TuningJob):
    made = [make_job(trainer, suffix=f"agent-{number}") for number in range(5)]
    _, queued, running, failed, cancelled = made
    for job in made[1:]:
        job_work.prepare(job.pk)
    queued.refresh_from_db()
    running.refresh_from_db()
    TrainingRun.objects.filter(pk=running.run_id).update(
        state="running", started_at=job.created_at, heartbeat_at=job.created_at, step=5, total_steps=10
    )
    end_run(failed, TrainingRun.State.FAILED, error="no memory")
    job_work.finish(failed.pk)
    trainer.post(f"{JOBS}/{cancelled.pk}/cancel")
    told = [shown(trainer, job) for job in (*made, succeeded)]
    known = get_args(FineTuningJob.model_fields["status"].annotation)
    assert [job.status for job in told] == ["validating_files", "queued", "running", "failed", "cancelled", "succeeded"]
    assert {job.status for job in told} == {*known}
    assert [job.estimated_finish is not None for job in told] == [False, False, True, False, False, False]


@pytest.mark.database
def test_events_come_in_pages_and_keep_their_ids(trainer: Caller, succeeded: TuningJob):
    url, ids, after = f"{JOBS}/{succeeded.pk}/events", [], {}
    while True:
        page = trainer.get(url, limit=3, **after).json()
        ids += [event["id"] for event in page["data"]]
        if not page["has_more"]:
            break
        after = {"after": page["last_id"]}
    assert len(ids) == len(set(ids)) == len(messages(trainer, succeeded))
    assert ids == sorted(ids, reverse=True)


def test_events_of_a_job_that_is_over_come_in_one_stream(trainer: Caller, succeeded: TuningJob):
    url = f"{JOBS}/{succeeded.pk}/events"
    whole = trainer.get(url, stream="true")
    assert whole["Content-Type"] == "text/event-stream"
    *sent, done = whole.content.decode().strip().split("\n\n")
    assert done == "data: [DONE]"
    ids, events = zip(*(piece.split("\n") for piece in sent), strict=True)
    told = [json.loads(event.removeprefix("data: ")) for event in events]
    assert [f"id: {event['id']}" for event in told] == [*ids]
    assert [event["message"] for event in told] == messages(trainer, succeeded)[::-1]
    rest = trainer.client.get(url, headers={"accept": "text/event-stream", "last-event-id": told[-2]["id"]})
    assert rest.content.decode().count("id: ") == 1


def test_its_last_step_is_a_checkpoint_that_can_be_called(trainer: Caller, succeeded: TuningJob):
    (only,) = trainer.get(f"{JOBS}/{succeeded.pk}/checkpoints").json()["data"]
    checkpoint = FineTuningJobCheckpoint.model_validate(only, strict=True)
    assert checkpoint.fine_tuned_model_checkpoint == f"{succeeded.tuned_model}:ckpt-step-20"
    assert (checkpoint.step_number, checkpoint.metrics.train_loss) == (20, 0.5)


def test_passes_before_its_last_are_checkpoints_where_they_are_served(
    trainer: Caller, succeeded: TuningJob, data_dir: Path
):
    version = succeeded.run.version
    earlier, unserved = (register_pass(version, step) for step in (10, 15))
    assert (earlier.name, register_pass(version, 10)) == ("v1-step10", earlier)
    row = Deployment.objects.create(
        agent=succeeded.agent, version=earlier, model_name="m", target="openai", url="http://127.0.0.1:1"
    )
    shown_ones = trainer.get(f"{JOBS}/{succeeded.pk}/checkpoints").json()["data"]
    told = [FineTuningJobCheckpoint.model_validate(one, strict=True) for one in shown_ones]
    assert [(one.step_number, one.metrics.train_loss) for one in told] == [(20, 0.5), (10, 1.25)]
    assert len({one.id for one in told}) == 2
    names = load().tuned
    pins = {one.step_number: names[one.fine_tuned_model_checkpoint].pin for one in told}
    assert pins == {20: "router@v1", 10: "router@v1-step10"}
    # one that nobody has kept is no other in its place
    assert load().pin_of(f"{succeeded.tuned_model}:ckpt-step-5") == f"{succeeded.tuned_model}:ckpt-step-5"
    gone = trainer.client.delete(f"/v1/models/{told[1].fine_tuned_model_checkpoint}")
    assert gone.json() == {"id": told[1].fine_tuned_model_checkpoint, "object": "model", "deleted": True}
    assert not Deployment.objects.filter(pk=row.pk).exists()
    for step in ("15", "5", "x", "9" * 30):
        assert trainer.client.delete(f"/v1/models/{succeeded.tuned_model}:ckpt-step-{step}").status_code == 404
    assert unserved.weights == version


def test_every_pass_that_a_job_kept_is_served_and_one_that_cannot_be_does_not_end_it(trainer: Caller, monkeypatch):
    asked: list[str] = []

    def refuse_one(agent: Agent, version: ModelVersion, target: str) -> None:
        asked.append(f"{version.name} {target}")
        if version.name == "v1-step5":
            raise ExportFailed("the disk is full")

    monkeypatch.setattr(job_work, "deploy", refuse_one)
    job = make_job(trainer)
    job_work.prepare(job.pk)
    assert TrainingRun.objects.get().options["keep_passes"] == 2
    version = ModelVersion.objects.create(agent=job.agent, name="v1", base_model="tiny", feedback_count=1)
    for step in (5, 10):
        checkpoints.pass_folder(version_directory(version), step).mkdir(parents=True)
    end_run(job, TrainingRun.State.SUCCEEDED, version=version, step=20, total_steps=20)
    job_work.finish(job.pk)
    assert asked == ["v1 adapter", "v1-step5 adapter", "v1-step10 adapter"]
    assert shown(trainer, job).status == "succeeded"


def test_a_queued_job_is_cancelled_at_once(trainer: Caller):
    job = make_job(trainer)
    job_work.prepare(job.pk)
    assert trainer.post(f"{JOBS}/{job.pk}/cancel").json()["status"] == "cancelled"
    assert TrainingRun.objects.get().state == "cancelled"
    assert trainer.post(f"{JOBS}/{job.pk}/cancel").status_code == 400


def test_a_paused_job_goes_on_with_the_same_run(trainer: Caller):
    job = make_job(trainer)
    job_work.prepare(job.pk)
    assert trainer.post(f"{JOBS}/{job.pk}/pause").json()["status"] == "queued"
    assert TrainingRun.objects.get().state == "cancelled"
    assert job_work.finish(job.pk) == "not over"
    assert trainer.post(f"{JOBS}/{job.pk}/resume").json()["status"] == "queued"
    run = TrainingRun.objects.get()
    assert (run.state, TuningJob.objects.get().run) == ("queued", run)
    assert trainer.post(f"{JOBS}/{job.pk}/resume").status_code == 400


@pytest.mark.database
def test_jobs_are_listed_by_their_metadata(trainer: Caller):
    one = make_job(trainer, metadata={"team": "support", "a__b": "x"})
    two = make_job(trainer, metadata={"team": "sales"})
    listed = trainer.get(JOBS).json()
    assert [row["id"] for row in listed["data"]] == [two.pk, one.pk]
    for query in ({"metadata[team]": "support"}, {"metadata[a__b]": "x"}):
        assert [row["id"] for row in trainer.get(JOBS, **query).json()["data"]] == [one.pk]
    assert trainer.get(JOBS, limit=1).json()["has_more"]
    assert [row["id"] for row in trainer.get(JOBS, limit=1, after=two.pk).json()["data"]] == [one.pk]


def test_a_key_of_an_agent_sees_and_trains_that_agent(trainer: Caller, agent: Agent):
    theirs = make_job(trainer)
    own = Caller(key_for(agent))
    assert own.get(f"{JOBS}/{theirs.pk}").status_code == 404
    body = {"model": "tiny", "training_file": put_file(CHAT, agent=agent), "suffix": "router"}
    job = TuningJob.objects.get(pk=own.post(JOBS, body).json()["id"])
    assert job.agent == agent
    assert own.post(JOBS, {**body, "training_file": theirs.training_file}).json()["error"]["param"] == "training_file"


def test_prompts_are_rewarded_by_the_jobs_grader(trainer: Caller):
    rows = [{"messages": [{**ASK, "content": f"Question {number}?"}], "answer": "delivery"} for number in range(12)]
    numbers = {"eval_interval": 5, "reasoning_effort": "low"}
    method = {"type": "reinforcement", "reinforcement": {"grader": GRADER, "hyperparameters": numbers}}
    job = make_job(trainer, *rows, method=method)
    assert job_work.prepare(job.pk) == "started"
    run = TrainingRun.objects.get()
    require_origins(run)
    options = RunOptions.from_dict(run.options)
    assert (run.method, options.source, options.grader["openai"]["reference"]) == ("grpo", "prompts", "{{item.answer}}")
    frozen = freeze(run.agent, options.data, files_of(options), method="prompts")
    assert frozen.train_rows + frozen.heldout_rows == 12
    row = json.loads((frozen.directory / "train.jsonl").read_text().splitlines()[0])
    assert row["details"] == {"item": {"answer": "delivery"}}
    assert not Trace.objects.exists()
    assert (options.eval_every, options.eval_prompts) == (5, job_work.EVAL_SAMPLES)
    assert "reasoning_effort is not used here" in messages(trainer, job)
    for step, held_out in ((4, {}), (5, {"held_out_reward": 0.25}), (6, {})):
        MetricPoint.objects.create(run=run, step=step, values={"loss": 0.5, "reward": 0.125, **held_out})
    TrainingRun.objects.update(state="running", started_at=job.created_at, step=6, total_steps=10)
    assert messages(trainer, job)[:2] == [
        "Step 5/10: training loss=0.50, mean reward=0.12, validation mean reward=0.25",
        "Step 4/10: training loss=0.50, mean reward=0.12",
    ]


SCHEMA = {"type": "object", "properties": {"team": {"type": "string"}}}


@pytest.mark.parametrize(
    ("form", "schema"),
    [
        ({"type": "json_schema", "json_schema": {"name": "team", "schema": SCHEMA}}, SCHEMA),
        ({"type": "json_object", "schema": SCHEMA}, SCHEMA),
        ({"type": "json_object"}, {"type": "object"}),
        ({"type": "text"}, {}),
        (None, {}),
    ],
)
def test_answers_that_are_graded_have_the_form_that_is_asked_for(trainer: Caller, form: Any, schema: Any):
    method = {"type": "reinforcement", "reinforcement": {"grader": GRADER, "response_format": form}}
    assert job_work.prepare(make_job(trainer, {"messages": [ASK], "answer": "delivery"}, method=method).pk) == "started"
    assert RunOptions.from_dict(TrainingRun.objects.get().options).answer_schema == schema


LISTED = {"project": "router", "name": None, "tags": ["mail"], "entity": "team"}


def test_a_tracker_lists_the_run_as_the_job_says(trainer: Caller, monkeypatch):
    monkeypatch.setattr(job_form, "find_spec", lambda name: name)
    job = make_job(trainer, integrations=[{"type": "wandb", "wandb": LISTED}])
    assert job_work.prepare(job.pk) == "started"
    options = RunOptions.from_dict(TrainingRun.objects.get().options)
    assert (options.report_to, options.tracked_as) == (
        "wandb",
        {"project": "router", "name": job.pk, "tags": ["mail"]},
    )
    assert shown(trainer, job).integrations[0].wandb.project == "router"
    assert "wandb.entity is not used here" in messages(trainer, job)


@pytest.mark.parametrize(
    "listed", [None, {}, {"project": 1}, {**LISTED, "url": "x"}, {**LISTED, "tags": ["x" * 65]}, {**LISTED, "name": []}]
)
def test_a_tracker_that_cannot_be_told_apart_is_refused(trainer: Caller, monkeypatch, listed: Any):
    monkeypatch.setattr(job_form, "find_spec", lambda name: name)
    body = {"model": "tiny", "training_file": put_file(CHAT), "integrations": [{"type": "wandb", "wandb": listed}]}
    assert trainer.post(JOBS, body).json()["error"]["param"] == "integrations"


WRONG = [
    ({"model": None}, "model", "missing_required_parameter"),
    ({"training_file": None}, "training_file", "missing_required_parameter"),
    ({"model": "gpt-9"}, "model", "model_not_available"),
    ({"model": "ft:tiny:ratchet::1"}, "model", "model_not_available"),
    ({"model": "/etc/passwd"}, "model", "model_not_available"),
    ({"training_file": "file-none"}, "training_file", "invalid_value"),
    ({"validation_file": "file-\u0000"}, None, None),
    ({"suffix": "x" * 65}, "suffix", "invalid_value"),
    ({"suffix": "!!"}, "suffix", "invalid_value"),
    ({"seed": -1}, "seed", "invalid_value"),
    ({"seed": True}, "seed", "invalid_value"),
    ({"metadata": {"a": 1}}, "metadata", "invalid_value"),
    ({"metadata": {str(number): "x" for number in range(17)}}, "metadata", "invalid_value"),
    ({"integrations": [{"type": "other"}]}, "integrations", "invalid_value"),
    ({"integrations": [{"type": "wandb"}]}, "integrations", "integration_not_available"),
    ({"method": {"type": "magic"}}, "method.type", "invalid_value"),
    ({"method": {"type": "dpo", "dpo": {"grader": {}}}}, "method.dpo.grader", "unknown_parameter"),
    ({"hyperparameters": {"n_epochs": 0}}, "method.supervised.hyperparameters.n_epochs", "invalid_value"),
    ({"hyperparameters": {"n_epochs": 1.5}}, "method.supervised.hyperparameters.n_epochs", "invalid_value"),
    ({"hyperparameters": {"rate": 1}}, "method.supervised.hyperparameters.rate", "unknown_parameter"),
    ({"method": {"type": "reinforcement"}}, "method.reinforcement.grader", "invalid_grader"),
    (
        {"method": {"type": "reinforcement", "reinforcement": {"grader": GRADER, "response_format": {"type": "xml"}}}},
        "method.reinforcement.response_format",
        "invalid_value",
    ),
    ({"prompt_loss_weight": 1}, "prompt_loss_weight", "unknown_parameter"),
]


@pytest.mark.parametrize(("wrong", "param", "code"), WRONG, ids=str)
def test_what_is_wrong_is_named_and_makes_nothing(trainer: Caller, wrong: dict[str, Any], param: str, code: str):
    body = {"model": "tiny", "training_file": put_file(CHAT), "suffix": "router", **wrong}
    answer = trainer.post(JOBS, body)
    error = answer.json()["error"]
    assert (answer.status_code, error["type"]) == (400, "invalid_request_error")
    assert (error["param"], error["code"]) == (param, code)
    assert not TuningJob.objects.exists()
    assert not Agent.objects.exists()


def test_who_may_not_train_makes_no_job(data_dir):
    reader = Caller(ApiKey.create(name="reader", kind=ApiKey.Kind.SECRET)[1])
    refused = reader.post(JOBS, {"model": "tiny", "training_file": put_file(CHAT)})
    assert (refused.status_code, refused.json()["error"]["type"]) == (403, "permission_error")
    assert Caller("sk_none").get(JOBS).json()["error"]["type"] == "authentication_error"
    assert reader.get("/v1/fine_tuning/nothing").json()["error"]["code"] == "not_found"


@pytest.mark.parametrize("kind", NUMBERS)
def test_every_number_of_a_method_may_be_left_to_us(trainer: Caller, kind: str):
    grader = {"grader": GRADER} if kind == "reinforcement" else {}
    method = {"type": kind, kind: {"hyperparameters": dict.fromkeys(NUMBERS[kind], "auto"), **grader}}
    assert make_job(trainer, method=method).method[kind]["hyperparameters"] == dict.fromkeys(NUMBERS[kind], "auto")


def test_a_tuned_model_is_deleted_unless_it_is_in_use(trainer: Caller, succeeded: TuningJob):
    gone = trainer.client.delete("/v1/models/ft:tiny:ratchet:none:1")
    assert (gone.status_code, gone.json()["error"]["code"]) == (404, "model_not_found")
    version = succeeded.run.version
    row = version.deployments.create(agent=succeeded.agent, model_name="m", target="openai", url="http://127.0.0.1:1")
    row.alias = "champion"
    row.save()
    used = trainer.client.delete(f"/v1/models/{succeeded.tuned_model}")
    assert (used.status_code, used.json()["error"]["code"]) == (409, "model_in_use")
    row.alias = ""
    row.save()
    assert trainer.client.delete(f"/v1/models/{succeeded.tuned_model}").json()["deleted"] is True
    assert not version.deployments.exclude(target="none").exists()


def test_what_was_tuned_is_learned_anew_with_the_files_of_both_jobs(trainer: Caller, succeeded: TuningJob):
    other = {"messages": [{**ASK, "content": "I want my money back"}, {**TELL, "content": "refunds"}]}
    for model in (succeeded.tuned_model, f"{succeeded.tuned_model}:ckpt-step-20"):
        job = make_job(trainer, other, model=model, suffix="again")
        assert (job.agent, shown(trainer, job).model) == (succeeded.agent, model)
        assert job_work.prepare(job.pk) == "started"
        run = TrainingRun.objects.latest("pk")
        assert (run.method, run.options["data"]["sessions"]) == ("sft", [succeeded.training_file, job.training_file])
        frozen = freeze(run.agent, RunOptions.from_dict(run.options).data, method="sft")
        assert frozen.train_rows + frozen.heldout_rows == 2
        assert f"The base model learns these files together with those that made {model}" in messages(trainer, job)
        trainer.post(f"{JOBS}/{job.pk}/cancel")


def test_preferences_behind_accepted_answers_are_learned_with_them(trainer: Caller, succeeded: TuningJob):
    method = {"type": "dpo", "dpo": {"hyperparameters": {"beta": 0.2, "n_epochs": 2}}}
    job = make_job(trainer, PAIR, model=succeeded.tuned_model, method=method)
    assert job_work.prepare(job.pk) == "started"
    run = TrainingRun.objects.latest("pk")
    assert (run.method, run.config["beta"], run.config["epochs"]) == ("mpo", 0.2, 2)
    assert shown(trainer, job).method.dpo.hyperparameters.beta == 0.2
    version = ModelVersion.objects.create(agent=job.agent, name="v2", base_model="tiny", feedback_count=1)
    end_run(job, TrainingRun.State.SUCCEEDED, version=version, step=2, total_steps=2)
    job_work.finish(job.pk)
    assert shown(trainer, job).fine_tuned_model == f"ft:tiny:ratchet:router:{job.pk[6:14]}"


def test_nothing_is_tuned_before_or_behind_a_reinforcement_job(trainer: Caller, succeeded: TuningJob):
    method = {"type": "reinforcement", "reinforcement": {"grader": GRADER}}
    body = {"model": succeeded.tuned_model, "training_file": put_file({"messages": [ASK]}), "method": method}
    refused = trainer.post(JOBS, body)
    assert (refused.status_code, refused.json()["error"]["param"]) == (400, "model")
    assert "begins with a base model" in refused.json()["error"]["message"]


def test_what_another_agent_tuned_is_not_there(trainer: Caller, succeeded: TuningJob):
    elsewhere = Caller(key_for(Agent.objects.create(name="elsewhere", base_model="tiny")))
    body = {"model": succeeded.tuned_model, "training_file": put_file(CHAT)}
    assert elsewhere.post(JOBS, body).json()["error"]["code"] == "model_not_available"


def test_a_job_whose_beginning_is_gone_by_its_turn_fails_and_says_so(trainer: Caller, succeeded: TuningJob):
    job = make_job(trainer, model=succeeded.tuned_model)
    TuningJob.objects.filter(pk=succeeded.pk).update(tuned_model=None)
    assert "does not exist any more" in job_work.prepare(job.pk)
    assert shown(trainer, job).status == "failed"
