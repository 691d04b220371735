"""Tokens for answers: what needs one, and where a server gets one before there is an answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID, uuid4

from rest_framework import serializers, status
from rest_framework.exceptions import NotFound
from rest_framework.request import Request
from rest_framework.response import Response

from rl.base.errors import UsageError
from rl.collect.feedback.tokens import Subject, read, sign
from rl.collect.traces.rows import agents_named
from rl.models import Agent, ApiKey
from rl.web.api.auth import INGEST
from rl.web.api.base import ApiView
from rl.web.api.openapi import BAD_BODY, operation
from rl.web.api.problems import TokenRefused
from rl.web.api.serializers.fields import StrictSerializer, TextField, raters_field


def check_tokens(key: ApiKey, data: Mapping[str, Any]) -> tuple[int, ...]:
    """``data`` of a feedback event, checked. How many may judge each of its answers by its tokens; none of keys that need no
    tokens. Raises TokenRefused."""
    if not key.needs_tokens:
        return ()
    names = (("trace", "token"), ("other_trace", "other_token"))
    return tuple(read_token(key, data[of], data.get(name, ""), name).raters for of, name in names if of in data)


def read_token(key: ApiKey, trace_id: UUID, token: str, name: str = "token") -> Subject:
    """Raises TokenRefused where it does not let this key rate this answer."""
    if not token:
        raise TokenRefused(f"this key rates only with a {name} for the answer; POST /api/v1/traces/ gives it")
    try:
        subject = read(token)
    except UsageError as error:
        raise TokenRefused(f"{name}: {error}") from error
    if subject.trace_id != trace_id or key.agent_id not in (None, subject.agent_id):
        raise TokenRefused(f"the {name} is for another answer, or this key is not for its agent")
    return subject


class TokenIn(StrictSerializer):
    agent = TextField(max_length=64, help_text="Name of an agent that exists.")
    raters = raters_field()


class TokenOut(serializers.Serializer):
    """Names an answer that is still to come: send it with the token, and show the widget with both."""

    trace = serializers.UUIDField(help_text="The id that the answer will have.")
    token = serializers.CharField()


class TokenList(ApiView):
    scopes = {"POST": INGEST}
    queryset = Agent.objects.all()
    serializer_class = TokenIn

    @operation(
        "reserve_trace",
        "Name an answer that is still to come",
        {201: TokenOut},
        *BAD_BODY,
        404,
        tags=["traces"],
        description="Stores nothing. Ratings with this token wait for the answer; the trace that is sent with it gets "
        "the id.",
    )
    def post(self, request: Request) -> Response:
        data = self.check_body(TokenIn)
        name = data["agent"]
        agent = agents_named({name}).get(name.lower())
        if agent is None or self.key.agent_id not in (None, agent.pk):
            raise NotFound(f"no agent is named {name!r}, or this key is not for it; agents are made in the admin")
        subject = Subject(uuid4(), agent.pk, data.get("raters", 1))
        return Response({"trace": str(subject.trace_id), "token": sign(subject)}, status=status.HTTP_201_CREATED)
