"""UploadedFile, Upload, UploadPart, TuningJob: what clients of OpenAI's fine-tuning API have put here, and asked for."""

import secrets
from pathlib import Path

from django.conf import settings
from django.db import models
from django.utils import timezone

from rl.models.access import ApiKey
from rl.models.agents import Agent
from rl.models.training import TrainingRun

ID_LENGTH = 64


def _new_id(prefix: str) -> str:
    return f"{prefix}{secrets.token_hex(12)}"


def new_file_id() -> str:
    return _new_id("file-")


def new_upload_id() -> str:
    return _new_id("upload_")


def new_part_id() -> str:
    return _new_id("part_")


def new_job_id() -> str:
    return _new_id("ftjob-")


class _Stored(models.Model):
    """Whose it is: of an agent, or of whoever may see all of them."""

    agent = models.ForeignKey(
        Agent, null=True, blank=True, on_delete=models.CASCADE, related_name="%(class)ss", help_text="Empty: of none."
    )
    api_key = models.ForeignKey(ApiKey, null=True, blank=True, on_delete=models.SET_NULL, related_name="%(class)ss")
    filename = models.CharField(max_length=255)
    purpose = models.CharField(max_length=32)
    bytes = models.PositiveBigIntegerField()
    created_at = models.DateTimeField(default=timezone.now)
    expires_at = models.DateTimeField(null=True, blank=True, db_index=True)

    class Meta:
        abstract = True
        ordering = ["-created_at", "-id"]

    def __str__(self) -> str:
        return f"{self.filename} ({self.pk})"

    @property
    def path(self) -> Path:
        """The bytes of a file, or the folder of an upload's parts."""
        return settings.DATA_DIR / "files" / str(self.pk)


class UploadedFile(_Stored):
    id = models.CharField(primary_key=True, max_length=ID_LENGTH, default=new_file_id, editable=False)


class Upload(_Stored):
    """A file that comes in parts. ``bytes``: those that were announced."""

    class Status(models.TextChoices):
        PENDING = "pending", "pending"
        COMPLETED = "completed", "completed"
        CANCELLED = "cancelled", "cancelled"

    id = models.CharField(primary_key=True, max_length=ID_LENGTH, default=new_upload_id, editable=False)
    mime_type = models.CharField(max_length=100)
    status = models.CharField(max_length=16, choices=Status, default=Status.PENDING)
    file_seconds = models.PositiveIntegerField(null=True, blank=True, help_text="Until the file expires; empty: never.")
    file = models.OneToOneField(UploadedFile, null=True, blank=True, on_delete=models.SET_NULL, related_name="upload")


class UploadPart(models.Model):
    id = models.CharField(primary_key=True, max_length=ID_LENGTH, default=new_part_id, editable=False)
    upload = models.ForeignKey(Upload, on_delete=models.CASCADE, related_name="parts")
    bytes = models.PositiveBigIntegerField()
    created_at = models.DateTimeField(default=timezone.now)

    def __str__(self) -> str:
        return str(self.pk)

    @property
    def path(self) -> Path:
        return self.upload.path / str(self.pk)


class TuningJob(models.Model):
    """A training that was asked for by its files. It has a run once it is its agent's turn; how far it is, the run says."""

    id = models.CharField(primary_key=True, max_length=ID_LENGTH, default=new_job_id, editable=False)
    agent = models.ForeignKey(Agent, on_delete=models.CASCADE, related_name="tuning_jobs")
    api_key = models.ForeignKey(ApiKey, null=True, blank=True, on_delete=models.SET_NULL, related_name="tuning_jobs")
    run = models.OneToOneField(
        TrainingRun,
        null=True,
        blank=True,
        on_delete=models.SET_NULL,
        related_name="tuning_job",
        help_text="Its training.",
    )
    model = models.CharField(max_length=200, help_text="The base model, by the name that it was asked for.")
    training_file = models.CharField(max_length=ID_LENGTH)
    validation_file = models.CharField(max_length=ID_LENGTH, blank=True)
    method = models.JSONField(default=dict, help_text="Type and hyper-parameters, as they were asked for.")
    seed = models.PositiveIntegerField()
    suffix = models.CharField(max_length=64, blank=True)
    metadata = models.JSONField(default=dict, blank=True)
    integrations = models.JSONField(default=list, blank=True)
    tuned_model = models.CharField(
        max_length=300,
        null=True,
        blank=True,
        unique=True,
        help_text="What its version is asked for by; empty: none yet.",
    )
    result_file = models.CharField(max_length=ID_LENGTH, blank=True)
    error = models.JSONField(default=dict, blank=True, help_text="Why it failed: code, message, param.")
    is_checked = models.BooleanField(default=False, help_text="Its files were read, and their answers are the agent's.")
    is_paused = models.BooleanField(default=False)
    created_at = models.DateTimeField(default=timezone.now)
    finished_at = models.DateTimeField(null=True, blank=True, help_text="Succeeded, failed or cancelled.")

    class Meta:
        indexes = [
            models.Index(fields=["agent", "created_at"], condition=models.Q(finished_at=None), name="tuning_job_open"),
        ]
        ordering = ["-created_at", "-id"]

    def __str__(self) -> str:
        return str(self.pk)
