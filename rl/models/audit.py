"""AuditEvent: who did what."""

from __future__ import annotations

from django.db import models


class AuditEvent(models.Model):
    """Who did something that others must be able to reconstruct. Append-only: rows are written once and only read."""

    class Action(models.TextChoices):
        SIGNED_IN = "signed_in", "signed in"
        SIGNED_OUT = "signed_out", "signed out"
        LOCKED_OUT = "locked_out", "was locked out after wrong passwords"
        PASSWORD_CHANGED = "password_changed", "changed a password"  # noqa: S105  a choice, not a password
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
