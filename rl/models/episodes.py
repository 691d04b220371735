"""Episode: how each ended."""

from __future__ import annotations

from django.db import models
from django.db.models import Q

from rl.models.agents import Agent
from rl.models.traces import Trace
from rl.models.training import TrainingRun


class Episode(models.Model):
    """How one episode of an agent in an environment ended. Its words are its trace's.

    Of a run there is one for each sample of a task at a step: steps that are done again after a resume replace theirs.
    """

    class Split(models.TextChoices):
        NONE = "", "outside of training"
        TRAIN = "train", "learned from"
        EVAL = "eval", "held out"

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
