"""What Langfuse's SDKs call: Basic authentication, whose user is the agent's name and whose password a secret key."""

import base64
from collections.abc import Iterable
from typing import Any, Final

from django.conf import settings
from rest_framework.exceptions import AuthenticationFailed
from rest_framework.request import Request
from rest_framework.response import Response

from rl.collect.importers.fields import Refused
from rl.collect.otlp import slug
from rl.collect.otlp.mapping import LooseSpan
from rl.collect.traces import spans
from rl.from_systems.langfuse.scores import read_score
from rl.models import Agent, ApiKey
from rl.web.api.auth import INGEST, ApiKeyAuthentication
from rl.web.api.base import ApiView
from rl.web.api.otlp import OtlpTraces
from rl.web.api.problems import BadRequest

MOST: Final = 1000
"""Scores and events of one call."""
_LANGFUSE: Final = "pk-lf-"
"""How Langfuse's own public keys begin, which name nobody here."""
NO_AGENT: Final = (
    "nothing says whose answers these are: make LANGFUSE_PUBLIC_KEY the name of the agent, or bind the key to it"
)
NO_EVENT: Final = (
    "only scores are taken here: answers come by OpenTelemetry, from Langfuse's SDK for Python since its version 3, "
    "and from @langfuse/otel"
)


class PublicAndSecretKey(ApiKeyAuthentication):
    def authenticate(self, request: Request) -> tuple[None, ApiKey] | None:
        header = request.headers.get("Authorization", "")
        if header.partition(" ")[0].lower() != "basic":
            return super().authenticate(request)
        return self.recognise(_user_and_password(request)[1])


def _user_and_password(request: Request) -> tuple[str, str]:
    """Empty texts for another header. Raises AuthenticationFailed."""
    scheme, _, encoded = request.headers.get("Authorization", "").partition(" ")
    if scheme.lower() != "basic":
        return "", ""
    try:
        user, _, password = base64.b64decode(encoded, validate=True).decode().partition(":")
    except ValueError:
        raise AuthenticationFailed("Basic authentication must be 'agent:sk_…' in Base64") from None
    return user, password


def agent_name(request: Request, key: ApiKey) -> str:
    """Empty where neither the key nor LANGFUSE_PUBLIC_KEY names one."""
    user = _user_and_password(request)[0]
    return key.agent.name if key.agent else "" if user.startswith(_LANGFUSE) else slug(user)


class Observations(OtlpTraces):
    schema = None
    authentication_classes = [PublicAndSecretKey]

    def agent_name(self, request: Request, key: ApiKey) -> str:
        return agent_name(request, key) or super().agent_name(request, key)


class LangfuseView(ApiView):
    authentication_classes = [PublicAndSecretKey]
    schema = None

    def store_scores(self, request: Request, scores: Iterable[Any]) -> list[str]:
        """Why each was refused; empty for those that were stored. Raises BadRequest, RunConflict."""
        name = agent_name(request, self.key)
        if not name:
            raise BadRequest(NO_AGENT)
        results = [_read(score, name) for score in scores]
        loose = [result for result in results if isinstance(result, LooseSpan)]
        if loose:
            agent = self.key.agent or Agent.objects.get_or_create(name__iexact=name, defaults={"name": name})[0]
            spans.store(agent, [], loose)
        return [result if isinstance(result, str) else "" for result in results]


def _read(score: Any, agent: str) -> LooseSpan | str:
    try:
        return read_score(score, agent)
    except Refused as error:
        return str(error)


class ProjectList(LangfuseView):
    """What ``auth_check`` asks for: one project, the agent's."""

    scopes = {"GET": INGEST}

    def get(self, request: Request) -> Response:
        name = agent_name(request, self.key) or settings.SITE_URL or "Ratchet"
        organization = {"id": "ratchet", "name": "Ratchet"}
        return Response({"data": [{"id": name, "name": name, "organization": organization, "metadata": {}}]})


class ScoreList(LangfuseView):
    """One score, or a list of them, as the SDK for Python sends them since its version 5."""

    scopes = {"POST": INGEST}

    def post(self, request: Request) -> Response:
        scores = request.data if isinstance(request.data, list) else [request.data]
        _require_few(scores)
        refused = [why for why in self.store_scores(request, scores) if why]
        if refused and scores is not request.data:
            raise BadRequest(refused[0])
        if scores is not request.data:
            return Response({"id": str(scores[0].get("id") or "")})
        if not refused:
            return Response({"message": "Accepted"}, status=202)
        errors = [{"message": why} for why in refused]
        return Response(
            {"accepted": len(scores) - len(refused), "rejected": len(refused), "errors": errors}, status=207
        )


class EventBatch(LangfuseView):
    """Scores among events, as the SDK for Node and older ones for Python send them."""

    scopes = {"POST": INGEST}

    def post(self, request: Request) -> Response:
        events = request.data.get("batch") if isinstance(request.data, dict) else None
        if not isinstance(events, list) or not all(isinstance(event, dict) for event in events):
            raise BadRequest("batch must be a list of events")
        _require_few(events)
        scores = [event for event in events if event.get("type") == "score-create"]
        reasons = self.store_scores(request, (event.get("body") for event in scores)) if scores else []
        reason_of = {id(event): why for event, why in zip(scores, reasons, strict=True)}
        successes, errors = [], []
        for event in events:
            own_id, why = str(event.get("id") or ""), reason_of.get(id(event), NO_EVENT)
            if why:
                errors.append({"id": own_id, "status": 400, "message": why})
            else:
                successes.append({"id": own_id, "status": 201})
        return Response({"successes": successes, "errors": errors}, status=207)


def _require_few(items: list[Any]) -> None:
    if len(items) > MOST:
        raise BadRequest(f"there are {len(items)}; send at most {MOST} at a time")
