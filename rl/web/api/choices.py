"""The answers that a page may offer to choose among."""

from __future__ import annotations

from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from rl.collect.feedback.answer_forms import find_form
from rl.models import Agent, Trace
from rl.web.api.auth import RATE
from rl.web.api.base import ApiView
from rl.web.api.feedback_writing import find_trace
from rl.web.api.openapi import operation
from rl.web.api.serializers.feedback import token_field
from rl.web.api.serializers.fields import StrictSerializer
from rl.web.api.tokens import check_tokens


class ChoicesOf(StrictSerializer):
    trace = serializers.UUIDField(help_text="The answer that is shown.")
    token = token_field("For the trace.")


class Choices(serializers.Serializer):
    values = serializers.ListField(child=serializers.CharField(), help_text="Empty: the answers are of no closed set.")


class ChoiceList(ApiView):
    scopes = {"GET": RATE}
    takes_tokens = True
    queryset = Trace.objects.all()
    serializer_class = Choices

    @operation(
        "list_choices",
        "The answers that an answer could have been",
        {200: Choices},
        400,
        404,
        tags=["feedback"],
        parameters=[ChoicesOf],
    )
    def get(self, request: Request) -> Response:
        asked = ChoicesOf(data=request.query_params.dict())
        asked.is_valid(raise_exception=True)
        check_tokens(self.key, asked.validated_data)
        trace = find_trace(self.key, asked.validated_data["trace"], "prompt")
        agent = Agent.objects.get(pk=trace.agent_id)
        form = find_form(agent)
        suits = form is not None and form.suits(trace.prompt, agent.system_prompt, "")
        return Response({"values": list(form.values) if form and suits else []})
