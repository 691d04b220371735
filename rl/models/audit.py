"""AuditEvent: who did what; WebhookDelivery: who was told of it."""

import uuid

from django.db import models
from django.utils import timezone


class AuditEvent(models.Model):
    """Who did something that others must be able to reconstruct. Append-only: rows are written once and only read."""

    class Action(models.TextChoices):
        SIGNED_IN = "signed_in", "signed in"
        SIGNED_OUT = "signed_out", "signed out"
        LOCKED_OUT = "locked_out", "was locked out after wrong passwords"
        PASSWORD_CHANGED = "password_changed", "changed a password"
        KEY_MADE = "key_made", "made an API key"
        KEY_REVOKED = "key_revoked", "revoked an API key"
        CHANGED = "changed", "changed a record"
        DELETED = "deleted", "deleted a record"
        RUN_QUEUED = "run_queued", "queued a run"
        RUN_CANCELLED = "run_cancelled", "cancelled a run"
        PROMOTED = "promoted", "promoted a version"
        ROLLED_BACK = "rolled_back", "rolled back"
        DEPLOYED = "deployed", "deployed a version"
        WITHDRAWN = "withdrawn", "took a deployment back"
        EXPORTED = "exported", "exported"
        EXPERIMENT_STARTED = "experiment_started", "started an experiment"
        EXPERIMENT_ENDED = "experiment_ended", "ended an experiment"
        BACKED_UP = "backed_up", "made a backup"
        RESTORED = "restored", "restored a backup"
        INVITED = "invited", "invited a rater"
        QUARANTINED = "quarantined", "held back a rater's feedback"
        RELEASED = "released", "released a rater's feedback"
        FORGOT = "forgot", "forgot a person"
        EXPIRED = "expired", "deleted what its retention is over for"

    at = models.DateTimeField(auto_now_add=True, db_index=True)
    actor = models.CharField(
        max_length=200, help_text="user:NAME, key:ID NAME, command:SYSTEM USER, or queue: Ratchet by itself."
    )
    action = models.CharField(max_length=32, choices=Action)
    target = models.CharField(max_length=200, blank=True, help_text="Kind and name: version support-chat v286.")
    agent = models.CharField(max_length=64, blank=True, help_text="By name: it outlives the row.")
    address = models.CharField(max_length=64, blank=True, help_text="Of the client, where there was one.")
    request_id = models.CharField(max_length=64, blank=True, help_text="Of the request, as in the log.")
    details = models.JSONField(default=dict, blank=True)

    class Meta:
        ordering = ["-at", "-pk"]
        indexes = [models.Index(fields=["action", "-at"], name="audit_action")]

    def __str__(self) -> str:
        return f"{self.at:%Y-%m-%d %H:%M:%S} {self.actor} {self.get_action_display()} {self.target}".rstrip()


class WebhookDelivery(models.Model):
    """One message to one endpoint that the operator registered; https://www.standardwebhooks.com/.

    The row is made with the event that it tells of, in one transaction; the queue delivers it::

        WAITING --2xx--> DELIVERED
           |  `--anything else--> WAITING, later
           `--too many attempts--> GIVEN_UP"""

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
