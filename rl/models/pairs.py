"""AnswerPair."""

from __future__ import annotations

import uuid

from django.db import models

from rl.models.agents import Agent
from rl.models.traces import Trace

NOT_BLIND = "not blind"
"""The tag of a comparison by somebody who had been shown the names of the versions."""


class AnswerPair(models.Model):
    """Two answers to one prompt, drawn to be compared. Feedback of kind comparison says who preferred which.

    The row is written before the answers are, so nothing in the database makes sure that they exist.
    """

    class Origin(models.TextChoices):
        TALK = "talk", "a person's own question"
        SECOND = "second", "a second answer, made in idle time"

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    agent = models.ForeignKey(Agent, on_delete=models.CASCADE, related_name="answer_pairs")
    left = models.ForeignKey(Trace, on_delete=models.CASCADE, related_name="+", db_constraint=False)
    right = models.ForeignKey(Trace, on_delete=models.CASCADE, related_name="+", db_constraint=False)
    origin = models.CharField(max_length=16, choices=Origin)
    drawn_for = models.CharField(max_length=200, blank=True, help_text="The rater who asked; empty: for anybody.")
    is_disputed = models.BooleanField(default=False, help_text="Versions or the judge disagree on it.")
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["left", "right"], name="answer_pair_unique")]
        indexes = [models.Index(fields=["agent", "origin", "-created_at"], name="answer_pair_agent")]
        ordering = ["-created_at"]

    def __str__(self) -> str:
        return f"{self.left_id} and {self.right_id}"
