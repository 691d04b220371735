"""What every request passes: ``/metrics`` for Prometheus is answered to whoever has METRICS_TOKEN, without one to programs
of this machine; who calls, and with which request, is noted for the audit log and the lines of the log."""

from __future__ import annotations

import hmac
from collections.abc import Callable
from http import HTTPStatus
from ipaddress import ip_address
from typing import Final

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from prometheus_client import CONTENT_TYPE_LATEST
from rest_framework.settings import api_settings

from rl.base import logs
from rl.operations.audit import Caller, acting_for
from rl.operations.metrics import exposition
from rl.web.client_address import client_network

PATH: Final = "/metrics"
_FORWARDED: Final = ("X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Real-IP", "Forwarded", "Via")


class MetricsMiddleware:
    """Answers before hosts and https are looked at: Prometheus asks by IP, from inside."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        return _answer(request) if request.path == PATH else self.get_response(request)


def _answer(request: HttpRequest) -> HttpResponse:
    if request.method not in ("GET", "HEAD"):
        return _refusal(HTTPStatus.METHOD_NOT_ALLOWED, "only GET and HEAD are allowed", Allow="GET, HEAD")
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    is_right = hmac.compare_digest(token.strip().encode(), settings.METRICS_TOKEN.encode())
    if settings.METRICS_TOKEN and not (scheme.lower() == "bearer" and is_right):
        text = "send METRICS_TOKEN as 'Authorization: Bearer …'"
        return _refusal(HTTPStatus.UNAUTHORIZED, text, **{"WWW-Authenticate": 'Bearer realm="metrics"'})
    if not settings.METRICS_TOKEN and not _is_local(request):
        return _refusal(HTTPStatus.FORBIDDEN, "only programs of this machine may read this; METRICS_TOKEN lets others")
    return HttpResponse(exposition(), content_type=CONTENT_TYPE_LATEST, headers={"Cache-Control": "no-store"})


def _is_local(request: HttpRequest) -> bool:
    """What a proxy of this machine passes on comes from this machine too, and is not local."""
    if settings.SECURE_PROXY_SSL_HEADER or api_settings.NUM_PROXIES or any(map(request.headers.get, _FORWARDED)):
        return False
    try:
        return ip_address(request.META.get("REMOTE_ADDR") or "").is_loopback
    except ValueError:
        return False


def _refusal(status: HTTPStatus, text: str, **headers: str) -> HttpResponse:
    return HttpResponse(f"{text}\n", status=status, content_type="text/plain; charset=utf-8", headers=headers)


HEADER: Final = "X-Request-ID"


class CallerMiddleware:
    """The request has its number from the front already, where there is one (``rl.web.front.application.observe``)."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        number = logs.request_id.get() or logs.request_number(request.headers.get(HEADER, ""))
        caller = Caller(address=client_network(request) or "", request=request)
        with logs.about(logs.request_id, number), acting_for(caller):
            response = self.get_response(request)
        response[HEADER] = number
        return response


def version(request: HttpRequest) -> dict[str, str]:
    """A context processor: what every page may show of this installation."""
    return {"ratchet_version": settings.VERSION}
