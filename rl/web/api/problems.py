"""Errors as RFC 9457 problem documents (``application/problem+json``): {type, title, status, detail, errors?}."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from http import HTTPStatus
from typing import Any

from django.core.exceptions import PermissionDenied as DjangoPermissionDenied
from django.core.exceptions import RequestDataTooBig, SuspiciousOperation
from django.core.exceptions import ValidationError as DjangoValidationError
from django.http import Http404
from rest_framework import exceptions, status
from rest_framework.response import Response
from rest_framework.settings import api_settings
from rest_framework.views import set_rollback

from rl.base.errors import BadFile, RunConflict, UsageError
from rl.collect.feedback.tokens import TokenSpent
from rl.faults import Fault, fault_of

MEDIA_TYPE = "application/problem+json"
TYPE_PREFIX = "urn:ratchet:problem:"
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


def problem_response(error: Exception, context: Mapping[str, Any]) -> Response | None:
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
    problem_type = TYPE_PREFIX + code.replace("_", "-")
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
        case SuspiciousOperation() | UsageError() | BadFile():
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
            yield from _pointers(inner, pointer if own else f"{pointer}/{_escape(str(name))}")
    elif isinstance(detail, list):
        for index, inner in enumerate(detail):
            nested = isinstance(inner, (Mapping, list))
            yield from _pointers(inner, f"{pointer}/{index}" if nested else pointer)
    else:
        yield {"pointer": pointer, "detail": str(detail)}


def _escape(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")
