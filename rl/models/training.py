"""TrainingSet and members, TrainingRun, MetricPoint, Episode."""

import uuid
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db import IntegrityError, models, transaction
from django.db.models import F, Q
from django.dispatch import Signal
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from rl.models.agents import Agent
from rl.models.traces import Trace
from rl.models.versions import ModelVersion


class TrainingSet(models.Model):
    """Frozen rows for one method. The rows are files; their bytes never change after the row is written."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    agent = models.ForeignKey(Agent, on_delete=models.CASCADE, related_name="training_sets")
    method = models.CharField(max_length=32)
    pair_type = models.CharField(max_length=16, blank=True)
    source = models.CharField(max_length=32, default="db")
    content_hash = models.CharField(max_length=64, help_text="SHA-256 over the train and held-out rows.")
    train_rows = models.PositiveIntegerField()
    heldout_rows = models.PositiveIntegerField()
    feedback_count = models.PositiveIntegerField(help_text="Feedback items that its rows came from.")
    val_split = models.FloatField(help_text="Share of the prompts that is held out.")
    stats = models.JSONField(default=dict, help_text="Counts, and the reasons for what was left out.")
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [
            # The same feedback gives the same rows: they are written once.
            models.UniqueConstraint(fields=["agent", "method", "content_hash"], name="training_set_unique"),
        ]
        ordering = ["-created_at"]

    def __str__(self) -> str:
        return f"{self.method} {str(self.id)[:8]}"

    @property
    def directory(self) -> Path:
        """Holds train.jsonl and heldout.jsonl."""
        return settings.DATA_DIR / "training_sets" / str(self.id)


class TrainingSetTrace(models.Model):
    """A trace whose text is in at least one row of a training set."""

    training_set = models.ForeignKey(TrainingSet, on_delete=models.CASCADE, related_name="members")
    trace = models.ForeignKey(Trace, on_delete=models.CASCADE, related_name="memberships")

    class Meta:
        constraints = [models.UniqueConstraint(fields=["trace", "training_set"], name="training_set_trace_unique")]

    def __str__(self) -> str:
        return f"{self.trace_id} in {self.training_set_id}"


class TrainingRun(models.Model):
    """One execution of one method on one TrainingSet.

    QUEUED ──► RUNNING ──► SUCCEEDED
      ▲  │        ├──────► FAILED ────┐
      │  └────────┴──────► CANCELLED ─┤
      └───────────────────────────────┘  resumed by a person, from the last whole checkpoint

    A run that stopped beating stays RUNNING and gets its next ``attempt`` from the reaper. Whoever works on a run holds
    its attempt number: every write is conditional on it, so a process that was given up for dead changes nothing."""

    class State(models.TextChoices):
        QUEUED = "queued", _("queued")
        RUNNING = "running", _("running")
        SUCCEEDED = "succeeded", _("succeeded")
        FAILED = "failed", _("failed")
        CANCELLED = "cancelled", _("cancelled")

    class Trigger(models.TextChoices):
        MANUAL = "manual", _("by hand")
        ONLINE = "online", _("by the online learner")
        QUICKSTART = "quickstart", _("by quickstart")

    ACTIVE = (State.QUEUED, State.RUNNING)
    RESUMABLE = (State.FAILED, State.CANCELLED)

    agent = models.ForeignKey(Agent, on_delete=models.CASCADE, related_name="runs")
    training_set = models.ForeignKey(TrainingSet, null=True, blank=True, on_delete=models.PROTECT, related_name="runs")
    version = models.OneToOneField(
        ModelVersion, null=True, blank=True, on_delete=models.SET_NULL, related_name="run", help_text="What it made."
    )
    method = models.CharField(max_length=32)
    trigger = models.CharField(max_length=16, choices=Trigger, default=Trigger.MANUAL)
    started_by = models.CharField(max_length=200, blank=True, help_text="The person; empty: Ratchet, or not known.")
    state = models.CharField(max_length=16, choices=State, default=State.QUEUED)
    stage = models.CharField(max_length=32, blank=True, help_text="What it is doing now.")
    options = models.JSONField(default=dict, help_text="Where the data comes from and what happens after training.")
    config = models.JSONField(default=dict, help_text="Hyper-parameters, a snapshot.")
    hardware = models.JSONField(default=dict, blank=True)
    error = models.TextField(blank=True)

    # progress
    step = models.PositiveIntegerField(default=0)
    total_steps = models.PositiveIntegerField(default=0)
    created_at = models.DateTimeField(auto_now_add=True)
    started_at = models.DateTimeField(null=True, blank=True)
    finished_at = models.DateTimeField(null=True, blank=True)

    # supervision
    attempt = models.PositiveIntegerField(default=0, help_text="Grows with every start; fences older processes off.")
    heartbeat_at = models.DateTimeField(null=True, blank=True)
    host = models.CharField(max_length=255, blank=True)
    pid = models.PositiveIntegerField(null=True, blank=True)
    pid_started = models.FloatField(null=True, blank=True, help_text="Start time of the process: pids are used again.")
    cancel_requested = models.BooleanField(default=False)

    class Meta:
        constraints = [
            # Two runs of one agent would learn from the same ratings and race for the same version name.
            models.UniqueConstraint(
                fields=["agent"], condition=Q(state__in=("queued", "running")), name="run_one_active_per_agent"
            ),
        ]
        indexes = [
            models.Index(fields=["agent", "-created_at"], name="run_agent_newest"),
            # The reaper and the starter ask every minute.
            models.Index(fields=["state"], condition=Q(state__in=("queued", "running")), name="run_active"),
        ]
        ordering = ["-created_at"]

    def __str__(self) -> str:
        return f"run {self.pk} ({self.method}, {self.state})"

    @property
    def directory(self) -> Path:
        return settings.DATA_DIR / "runs" / str(self.pk)

    @property
    def starter(self) -> str:
        """Who or what started it, for a sentence: ``by alice``."""
        return f"by {self.started_by}" if self.started_by else self.get_trigger_display()

    @property
    def log_path(self) -> Path:
        return self.directory / "log.txt"

    @property
    def is_active(self) -> bool:
        return self.state in self.ACTIVE

    def claim(self) -> bool:
        """QUEUED -> RUNNING; True for the one caller that won."""
        return self._advance(
            Q(state=self.State.QUEUED),
            state=self.State.RUNNING,
            attempt=F("attempt") + 1,
            started_at=timezone.now(),
            heartbeat_at=timezone.now(),
            stage="starting",
            error="",
        )

    def take_over(self) -> bool:
        """RUNNING -> RUNNING with the next attempt, after the process of this one is gone."""
        return self._advance(
            Q(state=self.State.RUNNING, attempt=self.attempt),
            attempt=F("attempt") + 1,
            heartbeat_at=timezone.now(),
            pid=None,
            pid_started=None,
            stage="restarting",
        )

    def requeue(self) -> bool:
        """FAILED or CANCELLED -> QUEUED, to be resumed; False too while another run of the agent is active."""
        try:
            with transaction.atomic():
                return self._advance(
                    Q(state__in=self.RESUMABLE),
                    state=self.State.QUEUED,
                    cancel_requested=False,
                    finished_at=None,
                    pid=None,
                    pid_started=None,
                    stage="",
                    error="",
                )
        except IntegrityError:
            self.refresh_from_db()
            return False

    def finish(self, state: State, error: str = "") -> bool:
        """RUNNING -> SUCCEEDED, FAILED or CANCELLED, by the holder of the current attempt."""
        return self._advance(
            Q(state=self.State.RUNNING, attempt=self.attempt),
            state=state,
            error=error,
            finished_at=timezone.now(),
            stage="",
        )

    def cancel(self) -> bool:
        """Stops a queued run at once and asks a running one to stop; False when it is over already."""
        if self._advance(
            Q(state=self.State.QUEUED), state=self.State.CANCELLED, finished_at=timezone.now(), cancel_requested=True
        ):
            return True
        return self._advance(Q(state=self.State.RUNNING), cancel_requested=True)

    def beat(self, **progress: Any) -> bool:
        """Writes progress; False tells the writer that the run is not his any more."""
        return self._advance(Q(state=self.State.RUNNING, attempt=self.attempt), heartbeat_at=timezone.now(), **progress)

    def _advance(self, condition: Q, **changes: Any) -> bool:
        changed = type(self).objects.filter(condition, pk=self.pk).update(**changes)
        self.refresh_from_db()
        return changed == 1


run_ended = Signal()
"""Sent with ``run`` after it is stored that a run succeeded, failed or was cancelled while it worked."""


class MetricPoint(models.Model):
    """All metrics of one optimiser step. A step that is done again after a resume overwrites its point."""

    run = models.ForeignKey(TrainingRun, on_delete=models.CASCADE, related_name="metric_points")
    step = models.PositiveIntegerField()
    values = models.JSONField(help_text="Metric name to number; null where it was not finite.")

    class Meta:
        constraints = [models.UniqueConstraint(fields=["run", "step"], name="metric_point_unique")]
        ordering = ["step"]

    def __str__(self) -> str:
        return f"{self.run_id}@{self.step}"


class Episode(models.Model):
    """How one episode of an agent in an environment ended. Its words are its trace's.

    Of a run there is one for each sample of a task at a step: steps that are done again after a resume replace theirs."""

    class Split(models.TextChoices):
        NONE = "", _("outside of training")
        TRAIN = "train", _("learned from")
        EVAL = "eval", _("held out")

    agent = models.ForeignKey(Agent, on_delete=models.CASCADE, related_name="episodes")
    trace = models.OneToOneField(Trace, on_delete=models.CASCADE, related_name="episode")
    run = models.ForeignKey(TrainingRun, null=True, blank=True, on_delete=models.CASCADE, related_name="episodes")
    split = models.CharField(max_length=8, choices=Split, default=Split.NONE, blank=True)
    step = models.PositiveIntegerField(default=0, help_text="Optimiser steps before it.")
    task_id = models.CharField(max_length=200)
    sample = models.PositiveIntegerField(default=0, help_text="Which of the episodes of its task at this step.")
    environment = models.CharField(max_length=200)
    reward = models.FloatField(null=True, blank=True, help_text="Empty: the world broke, and it counts in no rate.")
    success = models.BooleanField()
    turns = models.PositiveIntegerField()
    reason = models.TextField(blank=True, help_text="Why it ended as it did.")
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [
            # Also finds what a step that is done again replaces, and counts a run's successes step by step.
            models.UniqueConstraint(fields=["run", "split", "step", "task_id", "sample"], name="episode_of_run_unique"),
        ]
        indexes = [
            # The success rate of each task over the steps of a run.
            models.Index(fields=["run", "split", "task_id", "step", "success"], name="episode_run_task"),
            # A task's latest successes. The condition's column is in it, so that SQLite sees that it is enough.
            models.Index(
                fields=["agent", "task_id", "-id", "success"], condition=Q(success=True), name="episode_success"
            ),
        ]
        ordering = ["-id"]

    def __str__(self) -> str:
        return f"{self.task_id}#{self.sample}@{self.step}"
