"""WaitingRating, PendingSpan: what came before the answer that it belongs to."""

from __future__ import annotations

from django.db import models
from django.db.models import Q

from rl.models.access import ApiKey
from rl.models.agents import Agent
from rl.models.feedback import Feedback


class WaitingRating(models.Model):
    """A rating of an answer that is not here yet; it counts from when the answer comes."""

    agent = models.ForeignKey(
        Agent,
        null=True,
        blank=True,
        on_delete=models.CASCADE,
        related_name="waiting_ratings",
        help_text="Whose answer it has to be; empty: anybody's.",
    )
    entry_id = models.CharField(max_length=200, help_text="The answer's external id, or the id that it will have here.")
    by_id = models.BooleanField(default=False, help_text="A token gave the id that the answer will have here.")
    rater = models.CharField(max_length=200)
    address = models.CharField(max_length=16, blank=True, editable=False, help_text="As of feedback.")
    api_key = models.ForeignKey(ApiKey, null=True, blank=True, on_delete=models.SET_NULL, related_name="+")
    scale = models.CharField(max_length=8, choices=Feedback.Scale, default=Feedback.Scale.THUMB)
    value = models.FloatField(help_text="As it was given.")
    tags = models.JSONField(default=list)
    notes = models.TextField(blank=True)
    rated_at = models.DateTimeField()
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["agent", "entry_id", "rater", "by_id"], name="waiting_rating_of_agent"),
            models.UniqueConstraint(
                fields=["entry_id", "rater"], condition=Q(agent__isnull=True), name="waiting_rating_of_any_agent"
            ),
        ]
        ordering = ["-rated_at", "id"]

    def __str__(self) -> str:
        return f"{self.scale} {self.value:g} by {self.rater} for {self.entry_id}"


class PendingSpan(models.Model):
    """A tool call or an evaluation that OpenTelemetry delivered before the model call that it belongs to."""

    agent = models.ForeignKey(Agent, on_delete=models.CASCADE, related_name="pending_spans")
    otel_trace_id = models.CharField(max_length=32, help_text="Hexadecimal.")
    span_id = models.CharField(max_length=16, help_text="Hexadecimal.")
    payload = models.JSONField()
    received_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["agent", "otel_trace_id", "span_id"], name="pending_span_unique"),
        ]
        indexes = [models.Index(fields=["received_at"], name="pending_span_oldest")]

    def __str__(self) -> str:
        return f"{self.otel_trace_id}/{self.span_id}"
