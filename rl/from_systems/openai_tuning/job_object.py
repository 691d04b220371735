"""A job as OpenAI's clients read it: the job itself, its events and its checkpoints. How far it is, its run says."""

from collections.abc import Iterator
from datetime import datetime
from typing import Any, Final

from django.db.models import F, FloatField, Sum
from django.db.models.functions import Cast

from rl.from_systems.openai_tuning.job_form import UNUSED
from rl.from_systems.openai_tuning.job_work import ORGANIZATION, WANDB, figures_of
from rl.from_systems.openai_tuning.lineage import TUNED
from rl.models import Evaluation, ModelVersion, TrainingRun, TuningJob
from rl.serving.gateway.routing import CHECKPOINT

Json = dict[str, Any]
MOST_STEPS: Final = 10_000
"""Steps whose figures are told."""
RESOLVED: Final = {"n_epochs": "epochs", "batch_size": "batch_size", "beta": "beta"}
"""Hyper-parameter of theirs to ours that is told once it is chosen."""


def seconds(moment: datetime | None) -> int | None:
    return None if moment is None else int(moment.timestamp())


def status_of(job: TuningJob) -> str:
    if job.finished_at is not None:
        return "failed" if job.error else "succeeded" if job.tuned_model else "cancelled"
    if job.run is None:
        return "queued" if job.is_checked else "validating_files"
    return "queued" if job.is_paused or job.run.state == TrainingRun.State.QUEUED else "running"


def show_job(job: TuningJob) -> Json:
    kind = job.method["type"]
    chosen = {**job.method[kind], "hyperparameters": _fill_in(job)}
    return {
        "id": job.pk,
        "object": "fine_tuning.job",
        "created_at": seconds(job.created_at),
        "finished_at": seconds(job.finished_at),
        "model": job.model,
        "fine_tuned_model": job.tuned_model,
        "organization_id": ORGANIZATION,
        "status": status_of(job),
        "training_file": job.training_file,
        "validation_file": job.validation_file or None,
        "result_files": [job.result_file] if job.result_file else [],
        "hyperparameters": chosen["hyperparameters"] if kind == "supervised" else {},
        "method": {"type": kind, kind: chosen},
        "trained_tokens": _count_tokens(job),
        "seed": job.seed,
        "estimated_finish": seconds(_estimate_finish(job)),
        "error": job.error or None,
        "integrations": job.integrations,
        "metadata": {**job.metadata, **_verdict_of(job)},
        "user_provided_suffix": job.suffix or None,
    }


def _count_tokens(job: TuningJob) -> int | None:
    """Counts those that were read in all passes, once the job is over; None where nobody counted."""
    if not (job.run and job.tuned_model):
        return None
    tokens = Cast(F("values__tokens"), FloatField())
    total = job.run.metric_points.aggregate(total=Sum(tokens))["total"]
    return None if total is None else round(total)


def _estimate_finish(job: TuningJob) -> datetime | None:
    """As if all steps took as long as those so far, and the rest no time."""
    run = job.run
    if run is None or status_of(job) != "running" or not (run.started_at and run.heartbeat_at and run.step):
        return None
    return run.started_at + (run.heartbeat_at - run.started_at) * (max(run.total_steps, run.step) / run.step)


def _fill_in(job: TuningJob) -> Json:
    """What was asked for, and in the place of ``auto`` what was chosen, once it is."""
    asked: Json = job.method[job.method["type"]]["hyperparameters"]
    config = job.run.config if job.run and not job.run.config.get("automatic") else {}
    batch = config.get("batch_size", 1) * config.get("gradient_accumulation", 1)
    known = {**config, "batch_size": batch} if config else {}
    chosen = {name: _plain(known[own]) for name, own in RESOLVED.items() if name in asked and own in known}
    multiplier = {"learning_rate_multiplier": config["learning_rate_multiplier"]} if config else {}
    return {name: {**chosen, **multiplier}.get(name, of) if of == "auto" else of for name, of in asked.items()}


def _plain(number: float) -> float | int:
    return int(number) if int(number) == number else number


def _evaluation_of(job: TuningJob) -> Evaluation | None:
    """The gate's newest look at what the job made."""
    version = job.run.version if job.run else None
    return version.evaluations.filter(artifact=None).order_by("-created_at").first() if version else None


def _verdict_of(job: TuningJob) -> Json:
    evaluation = _evaluation_of(job) if job.finished_at else None
    if evaluation is None:
        return {}
    return {"ratchet_version": f"{job.agent.name}@{evaluation.version.name}", "ratchet_verdict": evaluation.verdict}


def list_events(job: TuningJob) -> list[Json]:
    """Newest first. An event keeps its id: those that come are put behind those that there are."""
    events = []
    for number, (moment, level, message, data) in enumerate(_events(job)):
        kind = "metrics" if data and "step" in data else "message"
        named = {"id": f"ftevent-{job.pk.removeprefix('ftjob-')}{number:06}", "object": "fine_tuning.job.event"}
        times = {"created_at": seconds(moment), "level": level, "message": message, "type": kind, "data": data or {}}
        events.append({**named, **times})
    return events[::-1]


_Event = tuple[datetime, str, str, Json | None]


def _events(job: TuningJob) -> Iterator[_Event]:
    files = f"Validating training file: {job.training_file}"
    files += f" and validation file: {job.validation_file}" if job.validation_file else ""
    yield job.created_at, "info", f"Created fine-tuning job: {job.pk}", None
    yield job.created_at, "info", files, None
    if job.model.startswith(TUNED):
        text = f"The base model learns these files together with those that made {job.model}"
        yield job.created_at, "info", text, None
    hyperparameters = job.method[job.method["type"]]["hyperparameters"]
    entities = ["wandb.entity" for of in job.integrations if of.get(WANDB, {}).get("entity")]
    for name in [*(of for of in UNUSED if of in hyperparameters), *entities]:
        yield job.created_at, "warn", f"{name} is not used here", None
    if job.is_checked:
        yield job.created_at, "info", "Files validated, moving job to queued state", None
    if job.run and job.run.started_at:
        yield from _events_of_run(job, job.run, job.run.started_at)
    if job.finished_at:
        yield from _events_of_end(job, job.finished_at)


def _events_of_run(job: TuningJob, run: TrainingRun, start: datetime) -> Iterator[_Event]:
    """Steps are spread evenly over the time that the run has taken: when each was done is not kept. The newest one is told
    with the next: what was held out is looked at behind a step, and an event that was told does not change."""
    yield start, "info", "Fine-tuning job started", None
    taken = (run.finished_at or run.heartbeat_at or start) - start
    points = list(run.metric_points.values_list("step", "values")[:MOST_STEPS])
    for step, values in points[:-1] if run.is_active and run.version_id is None else points:
        figures = figures_of(step, values)
        loss = f": training loss={figures['train_loss']:.2f}" if figures["train_loss"] is not None else ""
        for name, text in (("train_mean_reward", "mean reward"), ("valid_mean_reward", "validation mean reward")):
            loss += f", {text}={figures[name]:.2f}" if figures.get(name) is not None else ""
        moment = start + taken * (step / max(run.total_steps, step, 1))
        yield moment, "info", f"Step {step}/{run.total_steps}{loss}", {"total_steps": run.total_steps, **figures}
    if evaluation := _evaluation_of(job):
        level = "warn" if evaluation.verdict == Evaluation.Verdict.REJECT else "info"
        verdict = {"verdict": evaluation.verdict, "reason": evaluation.report.get("reason", "")}
        yield evaluation.created_at, level, f"Measured: {evaluation.verdict}. {verdict['reason']}", verdict


def _events_of_end(job: TuningJob, end: datetime) -> Iterator[_Event]:
    if job.error:
        yield end, "error", job.error["message"], {"error_code": job.error["code"]}
    elif job.tuned_model:
        yield end, "info", f"New fine-tuned model created: {job.tuned_model}", None
        yield end, "info", "The job has successfully completed", None
    else:
        yield end, "info", "Fine-tuning job cancelled", None


def list_checkpoints(job: TuningJob) -> list[Json]:
    """Lists those that can be called, newest first: the last step's, which is the model itself, and earlier passes'."""
    if job.run is None or job.run.version is None or not job.tuned_model:
        return []
    passes = (
        ModelVersion.objects.filter(weights=job.run.version)
        .exclude(step=None)
        .exclude(deployments=None)
        .order_by("-step")
    )
    steps = [job.run.total_steps, *(step for step in passes.values_list("step", flat=True) if step is not None)]
    return [_show_checkpoint(job, job.run, job.tuned_model, step) for step in steps]


def _show_checkpoint(job: TuningJob, run: TrainingRun, tuned_model: str, step: int) -> Json:
    at_step = run.metric_points.filter(step__lte=step).order_by("-step").first()
    figures = figures_of(step, at_step.values) if at_step else {"step": step}
    number = "" if step == run.total_steps else f"-{step}"
    return {
        "id": f"ftckpt_{job.pk.removeprefix('ftjob-')}{number}",
        "object": "fine_tuning.job.checkpoint",
        "created_at": seconds(job.finished_at),
        "fine_tuned_model_checkpoint": f"{tuned_model}{CHECKPOINT}{step}",
        "fine_tuning_job_id": job.pk,
        "metrics": {**figures, "full_valid_loss": None, "full_valid_mean_token_accuracy": None},
        "step_number": step,
    }
