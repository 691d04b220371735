"""From a job to its run, and from its run to a model that can be asked. The queue does each part; doing one again changes
nothing."""

import logging
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from itertools import chain
from pathlib import Path
from typing import Any, Final

from django.db import transaction
from django.utils import timezone

from rl.base.errors import BadFile, ExportFailed, RatchetError, RunConflict, UsageError
from rl.base.slugs import one_line
from rl.dataset_builder import DataOptions
from rl.dataset_builder.read.prompt_file import PromptFile
from rl.from_systems.openai_tuning.checks import LEAST_ROWS, BadRows, check_rows
from rl.from_systems.openai_tuning.job_rows import store_rows
from rl.from_systems.openai_tuning.lineage import TUNED, lineage_of
from rl.from_systems.openai_tuning.stored_files import write_file
from rl.models import Agent, Deployment, ModelVersion, TrainingRun, TuningJob, UploadedFile
from rl.operations import audit
from rl.runs import choosing, run, supervisor
from rl.runs.choosing import RunOptions
from rl.serving.deploy import deploy
from rl.versions.versions import list_passes, register_pass

log = logging.getLogger(__name__)
ORGANIZATION: Final = "ratchet"
WANDB: Final = "wandb"
PREPARE_SECONDS: Final = 1200
"""The longest that reading files, or exporting a model, may take in the queue; its lease is longer."""
LEFT_SECONDS: Final = 600
CHECKPOINTS: Final = 2
"""Passes before the last whose models can be called too, as at OpenAI."""
EVAL_SAMPLES: Final = 16
"""Held-out prompts that a reinforcement job answers at each look, where nobody says how many."""
HELD_OUT_SHARE: Final = 0.1
"""What a job without a validation file holds out of its prompts."""


def enqueue(part: str, job: TuningJob) -> None:
    """``part``: the name of a function of this module. Once the row is committed."""
    from django_q.tasks import async_task  # reads the queue's settings when imported

    transaction.on_commit(lambda: async_task(f"{__name__}.{part}", job.pk, timeout=PREPARE_SECONDS))


def prepare(job_id: str) -> str:
    """Reads the files of a job, which then waits for its agent's turn; its status afterwards."""
    job = TuningJob.objects.select_related("agent").filter(pk=job_id, finished_at=None).first()
    if job is None:
        return "gone"
    if not job.is_checked:
        for field, least in (("training_file", LEAST_ROWS), ("validation_file", 1)):
            try:
                _take_rows(job, field, least)
            except (RatchetError, BadRows) as error:
                return fail(job, f"invalid_{field}", str(error), field)
        TuningJob.objects.filter(pk=job.pk).update(is_checked=True)
    return start_next(job.agent_id)


def _take_rows(job: TuningJob, field: str, least: int) -> None:
    """Prompts that answers are generated to stay in their file. Raises BadRows, and BadFile for a file that is gone."""
    name, kind = getattr(job, field), job.method["type"]
    if not name:
        return
    path = _path_of(name)
    if not path.is_file():
        raise BadFile(Path(name), "is gone: it was deleted, or has expired")
    check_rows(path, kind, least)
    if kind != "reinforcement":
        store_rows(job.agent, name, path, kind, held_out=field == "validation_file")


def _path_of(file_id: str) -> Path:
    return UploadedFile(pk=file_id).path


def start_next(agent_id: int, *, at_once: bool = True) -> str:
    """Starts the run of the oldest job of an agent that waits, where the agent has no run; what became of it. Not
    ``at_once``: within a minute, as runs that were forgotten are."""
    waiting = TuningJob.objects.filter(agent=agent_id, run=None, finished_at=None, is_checked=True, is_paused=False)
    first = waiting.select_related("agent").order_by("created_at", "pk").first()
    if first is None:
        return "nothing waits"
    try:
        with transaction.atomic():
            made = _make_run(first)
            if not TuningJob.objects.filter(pk=first.pk, run=None, finished_at=None).update(run=made):
                raise RunConflict(f"{first.pk} was started by somebody else")
            if at_once:
                supervisor.enqueue(made)
    except RunConflict:
        return "waits"
    except RatchetError as error:
        return fail(first, "invalid_request", str(error))
    return "started"


def _make_run(job: TuningJob) -> TrainingRun:
    """Raises RunConflict where the agent has a run, and UsageError."""
    kind = job.method["type"]
    lineage = lineage_of(job)
    overrides = {"seed": job.seed, **_numbers(job.method[kind]["hyperparameters"])}
    chosen = choosing.choose(job.agent, lineage.method, overrides, base_model=lineage.base)
    share = 0.0 if any(of.validation_file for of in lineage.jobs) else HELD_OUT_SHARE
    data = DataOptions(pair_type=job.agent.pair_type, sessions=tuple(lineage.files), val_split=share, min_samples=1)
    options = chosen.apply_to(
        RunOptions(data=data, keep_passes=CHECKPOINTS if _keeps_checkpoints(job.agent) else 0, **_tracking_of(job))
    )
    options = _with_prompts(job, options) if kind == "reinforcement" else options
    with audit.acting_for(
        audit.Caller(f"key:{job.api_key_id or '?'} {job.api_key.name if job.api_key else 'fine-tuning'}")
    ):
        return run.create(job.agent, method_name=lineage.method, config=chosen.config, options=options)


def _tracking_of(job: TuningJob) -> dict[str, Any]:
    """A run without a name has the job's id, as at OpenAI."""
    if not job.integrations:
        return {}
    listed = job.integrations[0][WANDB]
    tracked_as = {"project": listed["project"], "name": listed.get("name") or job.pk, "tags": listed.get("tags") or []}
    return {"report_to": WANDB, "tracked_as": tracked_as}


def _with_prompts(job: TuningJob, options: RunOptions) -> RunOptions:
    """Its file's prompts, whose answers its grader rewards."""
    held_out = str(_path_of(job.validation_file)) if job.validation_file else ""
    files: dict[str, Any] = {
        "source": PromptFile.name,
        "data_file": str(_path_of(job.training_file)),
        "ratings_file": held_out,
    }
    origins = {**options.origins, **dict.fromkeys(files, job.training_file)}
    settings = job.method["reinforcement"]
    prompts, every = (settings["hyperparameters"].get(name, "auto") for name in ("eval_samples", "eval_interval"))
    looks: dict[str, Any] = {
        "eval_prompts": EVAL_SAMPLES if prompts == "auto" else prompts,
        "eval_every": 0 if every == "auto" else every,
    }
    schema = _schema_of(settings.get("response_format") or {})
    grader = {"openai": settings["grader"]}
    return replace(options, **files, **looks, grader=grader, answer_schema=schema, origins=origins)


def _schema_of(response_format: Mapping[str, Any]) -> Any:
    """Empty for text. As the gateway has it, a JSON object may have its schema beside it."""
    any_object = {"type": "object"} if response_format.get("type") == "json_object" else {}
    return response_format.get("json_schema", response_format).get("schema", any_object)


def _numbers(asked: Mapping[str, Any]) -> dict[str, Any]:
    """Our hyper-parameters for those that are not left to us. A batch is one pass and one step."""
    names = {"n_epochs": "epochs", "learning_rate_multiplier": "learning_rate_multiplier", "beta": "beta"}
    numbers = {names[name]: value for name, value in asked.items() if name in names and value != "auto"}
    if (batch := asked.get("batch_size", "auto")) != "auto":
        numbers |= {"batch_size": batch, "gradient_accumulation": 1}
    return numbers


def settle_job(run: TrainingRun, **signal: Any) -> None:
    """For ``run_ended``. In the run's own process, whose tasks the queue would not believe."""
    own = TuningJob.objects.select_related("agent").filter(run=run, is_paused=False, finished_at=None).first()
    if own:
        _settle(own, run)
    start_next(run.agent_id, at_once=False)


def is_left(job: TuningJob) -> bool:
    """Whether its run ended some time ago and its process, killed since, did not finish the job."""
    ended = job.run.finished_at if job.run and not job.is_paused and job.finished_at is None else None
    return ended is not None and ended < timezone.now() - timedelta(seconds=LEFT_SECONDS)


def finish(job_id: str) -> str:
    """Serves what the run made, whatever the gate said of it, and starts the next job."""
    job = TuningJob.objects.select_related("agent", "run__version").filter(pk=job_id).first()
    if job is None or (job.run and (job.run.is_active or job.is_paused)):
        return "not over"
    if job.finished_at is None and job.run:
        _settle(job, job.run)
    return start_next(job.agent_id)


def _settle(job: TuningJob, ended: TrainingRun) -> None:
    states = TrainingRun.State
    if ended.state == states.CANCELLED:
        end(job)
    elif ended.state == states.FAILED or ended.version is None:
        fail(job, "training_failed", ended.error or "the version that it made is gone")
    else:
        try:
            _serve(job, ended, ended.version)
        except (ExportFailed, UsageError) as error:
            fail(job, "serving_failed", str(error))


def end(job: TuningJob, **fields: Any) -> None:
    TuningJob.objects.filter(pk=job.pk, finished_at=None).update(finished_at=timezone.now(), **fields)


RESULTS: Final = "fine-tune-results"
_COLUMNS: Final = ("step", "train_loss", "train_accuracy", "valid_loss", "valid_mean_token_accuracy")


def _write_results(job: TuningJob, ended: TrainingRun) -> str:
    """The figures of each step, in OpenAI's columns, which stand in the order of the figures; the id of the file."""
    points = ended.metric_points.values_list("step", "values").iterator()
    rows = (figures_of(step, values) for step, values in points)
    lines = (",".join("" if of is None else str(of) for of in row.values()) for row in rows)
    columns = (
        *_COLUMNS,
        *(("train_mean_reward", "valid_mean_reward") if job.method["type"] == "reinforcement" else ()),
    )
    pieces = (f"{line}\n".encode() for line in chain([",".join(columns)], lines))
    return str(write_file(job.agent, job.api_key, f"step_metrics_{job.pk}.csv", RESULTS, pieces).pk)


def figures_of(step: int, values: dict[str, Any]) -> dict[str, Any]:
    """The figures of one step by OpenAI's names; None: not measured. Of preferences, the accuracy is that of the pairs."""
    rewards = {"train_mean_reward": values.get("reward"), "valid_mean_reward": values.get("held_out_reward")}
    return {
        "step": step,
        "train_loss": values.get("loss"),
        "train_mean_token_accuracy": values.get("token_accuracy", values.get("accuracy")),
        "valid_loss": values.get("held_out_loss"),
        "valid_mean_token_accuracy": values.get("held_out_token_accuracy", values.get("held_out_accuracy")),
        **(rewards if "reward" in values else {}),
    }


def _serve(job: TuningJob, ended: TrainingRun, version: ModelVersion) -> None:
    """Production traffic stays where it is: what is in use changes by promotion."""
    if not version.deployments.exclude(target="none").exists():
        deploy(job.agent, version, target=job.agent.deploy_target)
    name = f"{TUNED}{lineage_of(job).base}:{ORGANIZATION}:{one_line(job.suffix)}:{job.pk.removeprefix('ftjob-')[:8]}"
    _serve_checkpoints(job, version)
    end(job, tuned_model=name, result_file=_write_results(job, ended))


def _serve_checkpoints(job: TuningJob, version: ModelVersion) -> None:
    """Serves each that was kept; one that cannot be served does not end the job."""
    for step in list_passes(version) if _keeps_checkpoints(job.agent) else ():
        try:
            deploy(job.agent, register_pass(version, step), target=Deployment.Target.ADAPTER)
        except (ExportFailed, UsageError) as error:
            log.warning("%s: its checkpoint after step %s is not served: %s", job.pk, step, error)


def _keeps_checkpoints(agent: Agent) -> bool:
    """Says whether llama.cpp serves its base model: there an adapter more costs hardly any memory."""
    return agent.deploy_target in (Deployment.Target.LLAMA_CPP, Deployment.Target.ADAPTER)


def fail(job: TuningJob, code: str, message: str, param: str | None = None) -> str:
    end(job, error={"code": code, "message": message, "param": param})
    return f"failed: {message}"
