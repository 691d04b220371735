"""What the OpenAPI document says about every call: the bearer scheme, and refusals as problem documents."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from drf_spectacular.extensions import OpenApiAuthenticationExtension
from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework import serializers

from rl.web.api.problems import MEDIA_TYPE

_REASONS = {
    400: "The body is not what is documented here.",
    401: "The API key is missing, unknown, revoked or expired.",
    403: "The API key lacks the scope for this, or may not from this origin.",
    404: "There is no such thing, or it belongs to an agent that the key is not for.",
    408: "The body came too slowly: REQUEST_TIMEOUT, REQUEST_MIN_RATE.",
    409: "Somebody else changed the same thing at the same time; try again.",
    413: "The body is larger than MAX_REQUEST_BYTES.",
    415: "The body is not application/json.",
    429: "More than API_REQUESTS_PER_MINUTE; Retry-After says when to go on.",
    503: "The site is busy, or its database is away; Retry-After says when to try again.",
    507: "The disk is full; Retry-After says when to try again.",
}


class ProblemError(serializers.Serializer):
    pointer = serializers.CharField(allow_blank=True, help_text="JSON pointer into the request body (RFC 6901).")
    detail = serializers.CharField()


class Problem(serializers.Serializer):
    """RFC 9457."""

    type = serializers.CharField()
    title = serializers.CharField()
    status = serializers.IntegerField()
    detail = serializers.CharField()
    errors = ProblemError(many=True, required=False)  # type: ignore[assignment]


class BearerScheme(OpenApiAuthenticationExtension):
    target_class = "rl.web.api.auth.ApiKeyAuthentication"
    name = "apiKey"

    def get_security_definition(self, auto_schema: Any) -> dict[str, Any]:
        return {"type": "http", "scheme": "bearer", "description": "A secret key (sk_…) or a publishable one (pk_…)."}


def operation(name: str, summary: str, answers: Mapping[Any, Any], *refused: int, **more: Any) -> Any:
    """``extend_schema`` for one call; ``name`` is verb_resource, a key of ``answers`` a status, or it and a media type. 401,
    403, 429, 503 and 507 may come anywhere."""
    # Media types on all of them: the schema generator takes the smallest key for the call's main answer.
    responses: dict[Any, Any] = {
        key if isinstance(key, tuple) else (key, "application/json"): answer for key, answer in answers.items()
    }
    for status in sorted({401, 403, 429, 503, 507, *refused}):
        responses[status, MEDIA_TYPE] = OpenApiResponse(Problem, _REASONS[status])
    return extend_schema(operation_id=name, summary=summary, responses=responses, **{"description": "", **more})


BAD_BODY = (400, 408, 413, 415, 507)
"""Refusals of calls that bring something to be stored."""
