"""Training runs: how far one is, and an end to it."""

from __future__ import annotations

from django.db.models import QuerySet
from rest_framework import serializers, status
from rest_framework.request import Request
from rest_framework.response import Response

from rl.models import TrainingRun
from rl.runs import supervisor
from rl.web.api.auth import READ, TRAIN
from rl.web.api.base import ApiView
from rl.web.api.openapi import operation


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


class RunView(ApiView):
    queryset = TrainingRun.objects.select_related("agent", "version")
    serializer_class = RunOut

    def get_queryset(self) -> QuerySet:
        self.refuse_unknown_parameters()
        return super().get_queryset()


class RunDetail(RunView):
    scopes = {"GET": READ}

    @operation("get_run", "How far a training run is", {200: RunOut}, 400, 404, tags=["training"])
    def get(self, request: Request, pk: int) -> Response:
        return Response(RunOut(self.get_object()).data)


class RunCancel(RunView):
    scopes = {"POST": TRAIN}

    @operation(
        "cancel_run",
        "Cancel a training run",
        {200: RunOut, 202: RunOut},
        400,
        404,
        409,
        tags=["training"],
        request=None,
        description="200: it was waiting and is cancelled. 202: it is at work, keeps a checkpoint after its current step, "
        "and is cancelled then. 409: it is over already.",
    )
    def post(self, request: Request, pk: int) -> Response:
        run = self.get_object()
        is_over = supervisor.stop(run)
        return Response(RunOut(run).data, status=status.HTTP_200_OK if is_over else status.HTTP_202_ACCEPTED)
