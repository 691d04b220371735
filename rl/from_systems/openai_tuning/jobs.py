"""``/v1/fine_tuning/jobs``: create, list, retrieve, cancel, pause, resume, events, checkpoints."""

import re
from typing import Any, Final

from django.core.exceptions import ValidationError
from django.db import transaction
from django.db.models import QuerySet, TextField
from django.db.models.fields.json import KeyTextTransform
from django.db.models.functions import Cast
from django.http.response import HttpResponseBase
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response

from rl.base.errors import UsageError
from rl.collect.storable import unstorable
from rl.from_systems.openai_tuning import job_work
from rl.from_systems.openai_tuning.calls import TuningRefused, TuningView
from rl.from_systems.openai_tuning.event_stream import JobFollower
from rl.from_systems.openai_tuning.job_form import FIELDS, read_job
from rl.from_systems.openai_tuning.job_object import list_checkpoints, list_events, show_job
from rl.from_systems.openai_tuning.lineage import TUNED, find_tuned, lineage_of
from rl.from_systems.openai_tuning.stored_files import FINE_TUNE, live_files
from rl.models import Agent, ModelVersion, TrainingRun, TuningJob
from rl.runs import supervisor
from rl.serving import promotion, withdrawal
from rl.serving.gateway.routing import CHECKPOINT
from rl.web.api.auth import READ, TRAIN
from rl.web.api.events import EventRenderer, EventResponse

MOST_WAITING: Final = 100
"""Jobs of a key that are not over."""
_METADATA: Final = re.compile(r"metadata\[(.{1,64})\]")


class JobView(TuningView):
    def job(self, name: str) -> TuningJob:
        """Raises TuningRefused (404)."""
        return self.mine(_jobs(), "fine-tuning job", name)


def _jobs() -> QuerySet[TuningJob]:
    return TuningJob.objects.select_related("agent", "run__version")


class JobList(JobView):
    scopes = {"GET": READ, "POST": TRAIN}

    def get(self, request: Request) -> Response:
        """Lists those with all of the query's metadata."""
        rows = _jobs()
        for number, (name, value) in enumerate(request.GET.items()):
            if match := _METADATA.fullmatch(name):
                key = f"of_{number}"
                of_key = Cast(KeyTextTransform(match[1], "metadata"), TextField())
                rows = rows.alias(**{key: of_key}).filter(**{key: value})
            elif name not in ("after", "limit"):
                raise TuningRefused(f"unknown parameter {name[:100]!r}", name[:100], "unknown_parameter")
        return self.page_of(rows, show_job)

    def post(self, request: Request) -> Response:
        fields = read_job(self.fields(*FIELDS))
        own = {"pk": f"ftjob-{self.repeat_name}"} if self.repeat_name else {}
        if own and (earlier := _jobs().filter(api_key=self.key, **own).first()):
            return Response(show_job(earlier))
        tuned = self._find_agent_of(fields)
        for name in ("training_file", "validation_file"):
            if fields[name]:
                self._require_file(name, fields[name])
        if TuningJob.objects.filter(api_key=self.key, finished_at=None).count() >= MOST_WAITING:
            raise TuningRefused(f"{MOST_WAITING} jobs of this key wait already", code="rate_limit_exceeded", status=429)
        with transaction.atomic():
            agent = tuned or self.key.agent or _agent_for(fields)
            job = TuningJob.objects.create(agent=agent, api_key=self.key, **own, **fields)
            job_work.enqueue("prepare", job)
        return Response(show_job(job))

    def _find_agent_of(self, fields: dict[str, Any]) -> Agent | None:
        """The agent of the tuned model that the job begins with; None: it begins with a base model. Raises TuningRefused."""
        name = fields["model"]
        if not name.startswith(TUNED):
            return None
        earlier = None if unstorable(name) else find_tuned(self.filter_queryset(_jobs()), name)
        if earlier is None:
            message = f"Model {name[:100]} is not available for fine-tuning or does not exist"
            raise TuningRefused(message, "model", "model_not_available")
        try:
            lineage_of(TuningJob(agent=earlier.agent, **fields))
        except UsageError as error:
            raise TuningRefused(str(error), "model", "model_not_available") from None
        return earlier.agent

    def _require_file(self, field: str, name: str) -> None:
        file = None if unstorable(name) else self.filter_queryset(live_files()).filter(pk=name).first()
        if file is None or not file.path.is_file():
            raise TuningRefused(f"invalid {field}: {name}", field, "invalid_value")
        if file.purpose != FINE_TUNE:
            raise TuningRefused(f"{name} has the purpose {file.purpose}, not {FINE_TUNE}", field, "invalid_value")


def _agent_for(fields: dict[str, Any]) -> Agent:
    """The agent of the job's suffix, or of its model's name, made where there is none. Raises TuningRefused."""
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", fields["suffix"] or fields["model"]).strip("-._")[:64].rstrip("-._")
    agent = Agent.objects.filter(name__iexact=name).first()
    if agent is None:
        agent = Agent(name=name, base_model=fields["model"], deploy_target="adapter")
        try:
            agent.full_clean(exclude=["base_model"])
        except ValidationError as error:
            reason = "; ".join(error.messages)
            raise TuningRefused(f"suffix cannot name an agent: {reason}", "suffix", "invalid_value") from None
        agent.save()
    return agent


class JobDetail(JobView):
    scopes = {"GET": READ}

    def get(self, request: Request, name: str) -> Response:
        """Whoever asks for a job whose run has ended and left it unfinished has the queue finish it."""
        job = self.job(name)
        if job_work.is_left(job):
            job_work.enqueue("finish", job)
        return Response(show_job(job))


class JobChange(JobView):
    """One that is over stays as it is."""

    scopes = {"POST": TRAIN}

    def post(self, request: Request, name: str) -> Response:
        self.fields()
        job = self.job(name)
        if job.finished_at is not None:
            raise TuningRefused(f"the job {name} is over already", "id", "invalid_state")
        self.change(job, job.run)
        return Response(show_job(self.job(name)))

    def change(self, job: TuningJob, run: TrainingRun | None) -> None:
        raise NotImplementedError


class JobCancel(JobChange):
    def change(self, job: TuningJob, run: TrainingRun | None) -> None:
        TuningJob.objects.filter(pk=job.pk).update(is_paused=False)
        if run is not None and run.is_active:
            supervisor.cancel(run)
            run.refresh_from_db()
        if run is None or not run.is_active:
            job_work.end(job)
            job_work.enqueue("finish", job)


class JobPause(JobChange):
    def change(self, job: TuningJob, run: TrainingRun | None) -> None:
        TuningJob.objects.filter(pk=job.pk).update(is_paused=True)
        if run is not None and run.is_active:
            supervisor.cancel(run)


class JobResume(JobChange):
    """Goes on from its last checkpoint."""

    def change(self, job: TuningJob, run: TrainingRun | None) -> None:
        if not job.is_paused:
            raise TuningRefused(f"the job {job.pk} is not paused", "id", "invalid_state")
        if run is not None and (run.is_active or not supervisor.requeue(run)):
            raise TuningRefused(
                "its run stops yet, or its agent has another one; try again", "id", "invalid_state", 409
            )
        TuningJob.objects.filter(pk=job.pk).update(is_paused=False)
        if run is not None:
            supervisor.enqueue(run)
        else:
            job_work.enqueue("prepare", job)


class JobEvents(JobView):
    """A page of them, or with ``stream=true`` those that there are and those that come, until the job is over."""

    scopes = {"GET": READ}
    renderer_classes = (JSONRenderer, EventRenderer)

    def get(self, request: Request, name: str) -> HttpResponseBase:
        job = self.job(name)
        if request.GET.get("stream") == "true" or request.accepted_media_type == EventRenderer.media_type:
            return EventResponse(JobFollower(job, request.headers.get("Last-Event-ID") or request.GET.get("after", "")))
        return self.page(list_events(job))


class JobCheckpoints(JobView):
    scopes = {"GET": READ}

    def get(self, request: Request, name: str) -> Response:
        return self.page(list_checkpoints(self.job(name)), default=10)


class CheckpointPermissions(TuningView):
    """Between projects of an organization, of which there are none: whoever may call a model may call its checkpoint."""

    scopes = {"GET": READ, "POST": TRAIN}

    def get(self, request: Request, name: str) -> Response:
        return self.page([])

    def post(self, request: Request, name: str) -> Response:
        self.fields("project_ids")
        raise TuningRefused("there are no projects here to share a checkpoint with", "project_ids", "invalid_value")


class CheckpointPermission(TuningView):
    scopes = {"DELETE": TRAIN}

    def delete(self, request: Request, name: str, permission: str) -> Response:
        raise TuningRefused(f"No such permission: {permission[:100]}", "permission_id", status=404)


class TunedModel(TuningView):
    """Deleting one ends its serving; the job and the version stay, and it may be deployed again."""

    scopes = {"DELETE": TRAIN}

    def delete(self, request: Request, name: str) -> Response:
        job = None if unstorable(name) else find_tuned(self.filter_queryset(_jobs()), name)
        version = _version_of(job, name) if job else None
        if job is None or version is None:
            raise TuningRefused(f"The model '{name[:100]}' does not exist", "model", "model_not_found", 404)
        used = promotion.in_use(job.agent)
        if used and used.version_id == version.pk:
            message = f"{job.agent.name} uses {name[:100]} now: put another version into use first"
            raise TuningRefused(message, "model", "model_in_use", 409)
        try:
            withdrawal.stop_serving(job.agent, version)
        except UsageError as error:
            raise TuningRefused(str(error), "model", "model_not_found", 404) from None
        return Response({"id": name, "object": "model", "deleted": True})


def _version_of(job: TuningJob, name: str) -> ModelVersion | None:
    """The version of a tuned model, or of a checkpoint of its training."""
    step = name.lower().partition(CHECKPOINT)[2]
    version = job.run.version if job.run else None
    if version is None or not step or (job.run and step == str(job.run.total_steps)):
        return version
    return version.worded.filter(step=int(step)).first() if step.isdecimal() and len(step) < 10 else None
