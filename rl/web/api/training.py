"""Asks for rewards."""

from __future__ import annotations

from rest_framework import serializers, status
from rest_framework.request import Request
from rest_framework.response import Response

from rl.scoring import stored as rewarding
from rl.web.api.auth import TRAIN
from rl.web.api.base import ApiView
from rl.web.api.openapi import BAD_BODY, operation
from rl.web.api.serializers.fields import StrictSerializer


class Nothing(StrictSerializer):
    """An empty body."""


class Pending(serializers.Serializer):
    pending = serializers.IntegerField(
        help_text="Traces that waited when you asked, of the agents that the key is for."
    )


class CalculatePending(ApiView):
    scopes = {"POST": TRAIN}
    serializer_class = Nothing

    @operation(
        "calculate_pending_rewards",
        "Compute the rewards of the traces that wait",
        {202: Pending},
        *BAD_BODY,
        tags=["training"],
        request=Nothing,
        description="The queue does it in the background. Asking again while it is at work does no harm.",
    )
    def post(self, request: Request) -> Response:
        self.check_body(Nothing)
        pending = rewarding.waiting(self.key.agent_id)
        if pending:
            rewarding.enqueue()
        return Response({"pending": pending}, status=status.HTTP_202_ACCEPTED)
