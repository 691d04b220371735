"""Training runs."""

from __future__ import annotations

from rest_framework import serializers

from rl.models import TrainingRun


class RunOut(serializers.ModelSerializer):
    agent = serializers.CharField(source="agent.name")
    version = serializers.CharField(source="version.name", allow_null=True, default=None, help_text="That it made.")

    class Meta:
        model = TrainingRun
        fields = [
            "id",
            "agent",
            "method",
            "state",
            "stage",
            "step",
            "total_steps",
            "cancel_requested",
            "version",
            "error",
            "created_at",
            "started_at",
            "finished_at",
        ]
        read_only_fields = fields
