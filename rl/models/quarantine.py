"""Quarantine."""

from __future__ import annotations

from django.db import models
from django.db.models import Q

from rl.models.agents import Agent


class Quarantine(models.Model):
    """Feedback of one rater that teaches nothing until a person has released it: it is kept, and is not current."""

    agent = models.ForeignKey(Agent, on_delete=models.CASCADE, related_name="quarantines")
    rater = models.CharField(max_length=200)
    reason = models.CharField(max_length=300, help_text="For people's eyes.")
    created_at = models.DateTimeField(auto_now_add=True)
    released_at = models.DateTimeField(null=True, blank=True)
    released_by = models.CharField(max_length=200, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["agent", "rater"], condition=Q(released_at__isnull=True), name="quarantine_one_open"
            )
        ]
        ordering = ["-created_at"]

    def __str__(self) -> str:
        return f"{self.rater}: {self.reason}"
