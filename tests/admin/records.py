"""One of every kind of record, linked along the loop, for the tests of the pages and the admin."""

import uuid

from django.utils import timezone

from rl.models import (
    Agent,
    AnswerPair,
    ApiKey,
    Arm,
    Artifact,
    Assignment,
    AuditEvent,
    Claim,
    Deployment,
    Episode,
    Evaluation,
    Experiment,
    Feedback,
    FollowUpLabel,
    GoldItem,
    Invite,
    LabelModel,
    LabelProposal,
    MetricPoint,
    ModelVersion,
    PendingSpan,
    Quarantine,
    RatingQueue,
    RunPart,
    Trace,
    TrainingRun,
    TrainingSet,
    TrainingSetTrace,
    TuningJob,
    UploadedFile,
    WaitingRating,
    WebhookDelivery,
)
from tests.conftest import make_trace

HASH = "0" * 56


def make_training_set(agent: Agent, number: int = 1, **fields) -> TrainingSet:
    return TrainingSet.objects.create(
        agent=agent,
        method="dpo",
        content_hash=f"{HASH}{number:08}",
        train_rows=20,
        heldout_rows=5,
        feedback_count=40,
        val_split=0.2,
        stats={"pairs": 25, "left out": {"tie": 3}},
        **fields,
    )


def make_version(agent: Agent, name: str = "v40", **fields) -> ModelVersion:
    return ModelVersion.objects.create(agent=agent, name=name, base_model="tiny", feedback_count=40, **fields)


def make_evaluation(version: ModelVersion, training_set: TrainingSet, accuracy: float = 0.8, **fields) -> Evaluation:
    values = {
        "verdict": Evaluation.Verdict.PROMOTE,
        "base_accuracy": 0.5,
        "against_accuracy": 0.5,
        "report": {},
        **fields,
    }
    return Evaluation.objects.create(
        version=version,
        training_set=training_set,
        pairs=10,
        prompts=5,
        accuracy=accuracy,
        **values,
    )


def make_run(agent: Agent, state: str = TrainingRun.State.SUCCEEDED, **fields) -> TrainingRun:
    return TrainingRun.objects.create(
        agent=agent,
        method="dpo",
        state=state,
        config={"epochs": 3.0, "lora_r": 16},
        hardware={"cpu": "4 cores"},
        started_at=timezone.now(),
        **fields,
    )


def make_queue(agent: Agent, trace: Trace, number: int) -> RatingQueue:
    """With a row in every table that goes with it."""
    queue = RatingQueue.objects.create(agent=agent, name=f"queue-{number}")
    other = make_trace(agent, f"question {number}", f"other answer {number}")
    pair = AnswerPair.objects.create(agent=agent, left=trace, right=other, origin=AnswerPair.Origin.SECOND)
    GoldItem.objects.create(queue=queue, trace=trace, value=1)
    Invite.objects.create(queue=queue, name="Charlie", expires_at=timezone.now())
    Claim.objects.create(
        queue=queue, trace=trace, other_trace=other, pair=pair, rater="user:alice", expires_at=timezone.now()
    )
    Quarantine.objects.create(agent=agent, rater=f"device:{number}", reason="40 ratings in 5 seconds")
    return queue


def make_loop(agent: Agent, number: int = 1) -> TrainingRun:
    """A row in every table; call it with other numbers for more."""
    training_set = make_training_set(agent, number)
    version = make_version(agent, f"v{number}")
    make_evaluation(version, training_set)
    Artifact.objects.create(
        version=version,
        kind="gguf",
        quantization="q8_0",
        path=f"models/{number}.gguf",
        size_bytes=5_000_000,
        sha256=HASH,
    )
    trace = make_trace(agent, f"question {number}", f"answer {number}", model_version=version)
    Feedback.objects.create(
        agent=agent,
        trace=trace,
        kind="rating",
        rater="user:alice",
        scale="thumb",
        raw_value=1,
        value=1,
        training_set=training_set,
    )
    make_queue(agent, trace, number)
    TrainingSetTrace.objects.create(training_set=training_set, trace=trace)
    RunPart.objects.create(id=uuid.uuid4(), trace=trace)
    label_model = LabelModel.objects.create(
        agent=agent, labels=80, heldout_labels=20, heldout_accuracy=0.9, majority_share=0.6
    )
    LabelProposal.objects.create(trace=trace, label_model=label_model, good=True, confidence=0.95)
    FollowUpLabel.objects.create(trace=trace, next_trace=trace, label_model=label_model, good=False, confidence=0.7)
    PendingSpan.objects.create(agent=agent, otel_trace_id=f"{number:032x}", span_id=f"{number:016x}", payload={"n": 1})
    WaitingRating.objects.create(
        agent=agent, entry_id=f"e{number}", rater="device:page", value=1, rated_at=timezone.now(), tags=["perfect"]
    )
    Deployment.objects.create(agent=agent, version=version, model_name=f"{agent.name}-v{number}")
    experiment = Experiment.objects.create(agent=agent, name=f"experiment {number}")
    arm = Arm.objects.create(experiment=experiment, version=version)
    Assignment.objects.create(experiment=experiment, arm=arm, unit=f"user {number}")
    ApiKey.create(name=f"key {number}", kind=ApiKey.Kind.SECRET, agent=agent)
    run = make_run(agent, training_set=training_set, version=version, step=10, total_steps=10)
    file = UploadedFile.objects.create(agent=agent, filename=f"{number}.jsonl", purpose="fine-tune", bytes=number)
    TuningJob.objects.create(agent=agent, run=run, model="toy", training_file=file.pk, seed=number)
    MetricPoint.objects.create(run=run, step=10, values={"loss": 0.5, "rewards/accuracies": 0.9})
    Episode.objects.create(
        agent=agent, trace=trace, run=run, task_id=f"task-{number}", environment="search", success=True, turns=2
    )
    AuditEvent.objects.create(actor="user:bob", action=AuditEvent.Action.PROMOTED, target=f"version v{number}")
    WebhookDelivery.objects.create(
        endpoint="team", event="run.finished", occurrence=f"run {number} succeeded", payload={"n": 1}
    )
    return run
