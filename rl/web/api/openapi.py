"""What the OpenAPI document says about every call: the bearer scheme, and refusals as problem documents."""

from __future__ import annotations

from typing import Any

from drf_spectacular.extensions import OpenApiAuthenticationExtension
from drf_spectacular.utils import OpenApiResponse
from rest_framework import serializers

from rl.web.api.problems import MEDIA_TYPE

_REASONS = {
    400: "The body is not what is documented here.",
    401: "The API key is missing, unknown or revoked.",
    403: "The API key may not do this, or not from this origin.",
    404: "There is no such thing, or it belongs to an agent that the key is not for.",
    409: "Somebody else changed the same thing at the same time; try again.",
    413: "The body is larger than MAX_REQUEST_BYTES.",
    415: "The body is not application/json.",
    429: "More than API_REQUESTS_PER_MINUTE; Retry-After says when to go on.",
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
    errors = ProblemError(many=True, required=False)


class BearerScheme(OpenApiAuthenticationExtension):
    target_class = "rl.web.api.auth.ApiKeyAuthentication"
    name = "apiKey"

    def get_security_definition(self, auto_schema: Any) -> dict[str, Any]:
        return {"type": "http", "scheme": "bearer", "description": "A secret key (sk_…) or a publishable one (pk_…)."}


def refusals(*statuses: int) -> dict[tuple[int, str], OpenApiResponse]:
    """Responses for ``extend_schema``; 401, 403 and 429 are possible everywhere."""
    return {(status, MEDIA_TYPE): OpenApiResponse(Problem, _REASONS[status]) for status in {401, 403, 429, *statuses}}


WRITE_REFUSALS = refusals(400, 413, 415)
