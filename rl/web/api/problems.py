"""Errors as RFC 9457 problem documents (``application/problem+json``): {type, title, status, detail, errors?}."""

import logging
from collections.abc import Iterator, Mapping
from functools import cache
from http import HTTPStatus
from typing import Any

from django.conf import settings
from django.contrib.auth.views import redirect_to_login
from django.core.exceptions import PermissionDenied as DjangoPermissionDenied
from django.core.exceptions import RequestDataTooBig, SuspiciousOperation
from django.core.exceptions import ValidationError as DjangoValidationError
from django.http import Http404, HttpResponse
from drf_spectacular.extensions import OpenApiAuthenticationExtension
from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.utils import OpenApiResponse, extend_schema
from drf_spectacular.views import SpectacularAPIView, SpectacularSwaggerSplitView
from rest_framework import exceptions, serializers, status
from rest_framework.authentication import SessionAuthentication
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.settings import api_settings
from rest_framework.views import set_rollback

from rl.base.errors import BadFile, NotEnoughData, RunConflict, UsageError
from rl.collect.feedback.tokens import TokenSpent
from rl.faults import Fault, fault_of
from rl.web.api.auth import READ, ApiKeyAuthentication, MayCall

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
    for code in sorted({401, 403, 429, 503, 507, *refused}):
        responses[code, MEDIA_TYPE] = OpenApiResponse(Problem, _REASONS[code])
    return extend_schema(operation_id=name, summary=summary, responses=responses, **{"description": "", **more})


BAD_BODY = (400, 408, 413, 415, 507)
"""Refusals of calls that bring something to be stored."""
BAD_CHANGE = (*BAD_BODY, 404, 409)
"""Those of calls that bring it to something that is there."""


class MayRead(MayCall):
    def has_permission(self, request: Request, view: Any) -> bool:
        is_signed_in = bool(request.user and request.user.is_authenticated)
        return settings.OPEN_API_DOCS or is_signed_in or super().has_permission(request, view)


class _Kept:
    scopes = {"GET": READ}
    authentication_classes = [ApiKeyAuthentication, SessionAuthentication]
    permission_classes = [MayRead]
    request: Request

    def handle_exception(self, exc: Exception) -> HttpResponse:
        """Refusals are JSON, also where YAML or a page was asked for."""
        self.request.accepted_renderer = JSONRenderer()
        return super().handle_exception(exc)  # type: ignore[misc]


class Description(_Kept, SpectacularAPIView):
    """The document, which each process writes once in each form: the code alone determines it."""

    def _get_schema_response(self, request: Request) -> HttpResponse:
        form: Any = type(request.accepted_renderer)
        headers = {"Content-Disposition": f'inline; filename="{self._get_filename(request, None)}"'}
        return HttpResponse(_write(form), content_type=form.media_type, headers=headers)


@cache
def _write(form: Any) -> Any:
    return form().render(SchemaGenerator().get_schema(public=True))


class DescriptionPage(_Kept, SpectacularSwaggerSplitView):
    """Asks whoever may not read it to sign in."""

    url_name = "api-schema"
    template_name = "rl/api_docs.html"  # the stock one has an inline style, which the Content-Security-Policy forbids

    def handle_exception(self, exc: Exception) -> HttpResponse:
        if isinstance(exc, exceptions.NotAuthenticated):
            return redirect_to_login(self.request.get_full_path())
        return super().handle_exception(exc)


MEDIA_TYPE = "application/problem+json"
log = logging.getLogger(__name__)


class TooLarge(exceptions.APIException):
    status_code = status.HTTP_413_REQUEST_ENTITY_TOO_LARGE
    default_code = "too_large"
    default_detail = "the request body is too large; send it in parts"


class BadRequest(exceptions.APIException):
    status_code = status.HTTP_400_BAD_REQUEST
    default_code = "bad_request"
    default_detail = "the request cannot be understood"


class TokenRefused(exceptions.PermissionDenied):
    default_code = "token_refused"


class MachineFault(exceptions.APIException):
    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.detail)
        self.status_code, self.default_code, self.wait = fault.status.value, fault.code, fault.retry_seconds


class Conflict(exceptions.APIException):
    status_code = status.HTTP_409_CONFLICT
    default_code = "conflict"
    default_detail = "somebody else changed this at the same time"


def problem_response(error: Exception, _: Mapping[str, Any]) -> Response | None:
    """REST framework's exception handler. None leaves a bug to Django: it is logged and answered with 500."""
    known = _as_api_exception(error)
    if known is None:
        return None
    set_rollback()
    headers = {}
    if challenge := getattr(known, "auth_header", None):
        headers["WWW-Authenticate"] = challenge
    if wait := getattr(known, "wait", None):
        headers["Retry-After"] = str(int(wait))
    return Response(problem(known), status=known.status_code, headers=headers, content_type=MEDIA_TYPE)


def problem(error: exceptions.APIException) -> dict[str, Any]:
    code, status = error.default_code, HTTPStatus(error.status_code)
    if isinstance(error, exceptions.ValidationError):
        return {**document(code, status, summary(error)), "errors": list(_pointers(error.detail))}
    return document(code, status, str(error.detail))


def document(code: str, status: HTTPStatus, detail: str) -> dict[str, Any]:
    problem_type = "urn:ratchet:problem:" + code.replace("_", "-")
    return {"type": problem_type, "title": status.phrase, "status": status.value, "detail": detail}


def summary(error: exceptions.ValidationError) -> str:
    """All that is wrong, in one line."""
    return "; ".join(f"{e['pointer'].strip('/')}: {e['detail']}".removeprefix(": ") for e in _pointers(error.detail))


def _as_api_exception(error: Exception) -> exceptions.APIException | None:
    match error:
        case exceptions.APIException():
            return error
        case Http404():
            return exceptions.NotFound()
        case DjangoPermissionDenied():
            return exceptions.PermissionDenied()
        case DjangoValidationError():
            return exceptions.ValidationError(error.messages)
        case RequestDataTooBig():
            return TooLarge()
        case TokenSpent():
            return TokenRefused(str(error))
        case SuspiciousOperation() | UsageError() | BadFile() | NotEnoughData():
            return BadRequest(str(error))
        case RunConflict():
            return Conflict(str(error))
        case _ if fault := fault_of(error):
            log.error("nothing was stored: %s: %s", type(error).__name__, error)
            return MachineFault(fault)
        case _:
            return None


def _pointers(detail: Any, pointer: str = "") -> Iterator[dict[str, str]]:
    """Flattens REST framework's nested errors; a pointer (RFC 6901) says where in the request body it is."""
    if isinstance(detail, Mapping):
        for name, inner in detail.items():
            own = name == api_settings.NON_FIELD_ERRORS_KEY
            escaped = str(name).replace("~", "~0").replace("/", "~1")
            yield from _pointers(inner, pointer if own else f"{pointer}/{escaped}")
    elif isinstance(detail, list):
        for index, inner in enumerate(detail):
            nested = isinstance(inner, (Mapping, list))
            yield from _pointers(inner, f"{pointer}/{index}" if nested else pointer)
    else:
        yield {"pointer": pointer, "detail": str(detail)}
