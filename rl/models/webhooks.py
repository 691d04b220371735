"""WebhookDelivery."""

from __future__ import annotations

import uuid

from django.db import models
from django.utils import timezone


class WebhookDelivery(models.Model):
    """One message to one endpoint that the operator registered; https://www.standardwebhooks.com/.

    The row is made with the event that it tells of, in one transaction; the queue delivers it::

        WAITING --2xx--> DELIVERED
           |  `--anything else--> WAITING, later
           `--too many attempts--> GIVEN_UP
    """

    class State(models.TextChoices):
        WAITING = "waiting", "waiting"
        DELIVERED = "delivered", "delivered"
        GIVEN_UP = "given_up", "given up"

    message_id = models.UUIDField(default=uuid.uuid4, unique=True, editable=False, help_text="The webhook-id header.")
    endpoint = models.CharField(max_length=64, help_text="Name of the operator's endpoint.")
    event = models.CharField(max_length=64, help_text="run.finished, version.judged, …")
    occurrence = models.CharField(max_length=200, help_text="What happened, so that it is told once: run 12 succeeded.")
    payload = models.JSONField()
    created_at = models.DateTimeField(auto_now_add=True)
    state = models.CharField(max_length=16, choices=State, default=State.WAITING)
    attempts = models.PositiveIntegerField(default=0)
    next_attempt_at = models.DateTimeField(default=timezone.now)
    delivered_at = models.DateTimeField(null=True, blank=True)
    last_status = models.PositiveIntegerField(null=True, blank=True, help_text="HTTP status of the last attempt.")
    last_error = models.TextField(blank=True)

    class Meta:
        verbose_name_plural = "webhook deliveries"
        ordering = ["-created_at", "-pk"]
        constraints = [
            models.UniqueConstraint(fields=["endpoint", "event", "occurrence"], name="webhook_told_once"),
        ]
        indexes = [models.Index(fields=["state", "next_attempt_at"], name="webhook_due")]

    def __str__(self) -> str:
        return f"{self.event} to {self.endpoint}: {self.get_state_display()}"
