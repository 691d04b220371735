"""PendingSpan."""

from __future__ import annotations

from django.db import models

from rl.models.agents import Agent


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
