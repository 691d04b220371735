"""LabelModel, LabelProposal, FollowUpLabel: what models say of answers where people said nothing."""

from __future__ import annotations

from pathlib import Path

from django.conf import settings
from django.db import models
from django.db.models import Q

from rl.models.agents import Agent
from rl.models.traces import Trace

LEAST_HEARD = 0.6
"""The confidence below which a next message says nothing."""


class LabelModel(models.Model):
    """A judge that learned from what people think of one agent's answers (``rl.judge``)."""

    class Reads(models.TextChoices):
        ANSWER = "answer", "the answer"
        FOLLOW_UP = "follow_up", "what its user wrote next"

    agent = models.ForeignKey(Agent, on_delete=models.CASCADE, related_name="label_models")
    reads = models.CharField(max_length=16, choices=Reads, default=Reads.ANSWER)
    labels = models.PositiveIntegerField(help_text="People's labels that it learned from.")
    heldout_labels = models.PositiveIntegerField(help_text="People's labels that it was measured on.")
    heldout_accuracy = models.FloatField(help_text="Share of the held-out labels that it gets right, 0 … 1.")
    accuracy_low = models.FloatField(
        null=True, blank=True, help_text="The lower end of its 95 % interval, where known."
    )
    majority_share = models.FloatField(help_text="What always saying the commoner label would get right, 0 … 1.")
    calibration = models.JSONField(
        default=list, help_text="Of the held-out labels, by confidence: [{from, to, count, confidence, accuracy}]."
    )
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["-created_at", "-id"]

    def __str__(self) -> str:
        return f"label model {self.pk} of {self.agent_id}"

    @property
    def is_informative(self) -> bool:
        """Better on held-out labels than always saying the commoner one; surely better, where that is known."""
        accuracy = self.heldout_accuracy if self.accuracy_low is None else self.accuracy_low
        return accuracy > self.majority_share

    @property
    def path(self) -> Path:
        """Its weights, which ``rl.judge.head.load`` reads; plain numbers, never a pickle."""
        return settings.DATA_DIR / "label_models" / f"{self.pk}.npz"


class LabelProposal(models.Model):
    """A label that a model proposes for a trace. It is not feedback: a person's label always goes before it."""

    trace = models.OneToOneField(Trace, on_delete=models.CASCADE, related_name="label_proposal")
    label_model = models.ForeignKey(LabelModel, on_delete=models.CASCADE, related_name="proposals")
    good = models.BooleanField()
    confidence = models.FloatField(help_text="0.5 … 1.")
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(confidence__gte=0.5, confidence__lte=1), name="label_proposal_confidence"
            ),
        ]

    def __str__(self) -> str:
        return f"{'good' if self.good else 'bad'} ({self.confidence:.2f}) for {self.trace_id}"


class FollowUpLabel(models.Model):
    """What a model hears about an answer in the next message of the same user. It is not feedback: weak evidence, which
    gives way to any person's label."""

    trace = models.OneToOneField(Trace, on_delete=models.CASCADE, related_name="follow_up")
    next_trace = models.ForeignKey(
        Trace, on_delete=models.CASCADE, related_name="+", help_text="The message is its last question."
    )
    label_model = models.ForeignKey(LabelModel, on_delete=models.CASCADE, related_name="follow_ups")
    good = models.BooleanField()
    confidence = models.FloatField(help_text="0.5 … 1.")
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(confidence__gte=0.5, confidence__lte=1), name="follow_up_confidence"),
        ]

    def __str__(self) -> str:
        return f"{'good' if self.good else 'bad'} ({self.confidence:.2f}) for {self.trace_id}"

    @classmethod
    def find_sure(cls) -> models.QuerySet[FollowUpLabel]:
        """Those that are shown, and may be learned from."""
        return cls.objects.filter(confidence__gte=LEAST_HEARD)

    @property
    def is_sure(self) -> bool:
        return self.confidence >= LEAST_HEARD
