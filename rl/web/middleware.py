"""What every request passes: ``/metrics`` for Prometheus is answered to whoever has METRICS_TOKEN, without one to programs
of this machine; who calls, and with which request, is noted for the audit log and the lines of the log. And what a
caller gets when the machine is at fault: neither answer asks the database, which may be what is gone. People read times in
their own zone."""

import hmac
import logging
import sys
from collections.abc import Callable
from functools import lru_cache
from http import HTTPStatus
from ipaddress import ip_address
from typing import Final
from zoneinfo import ZoneInfo

from django.conf import settings
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.template.loader import render_to_string
from django.utils import timezone
from django.utils.cache import add_never_cache_headers
from django.utils.deprecation import MiddlewareMixin
from django.views.defaults import bad_request, server_error
from prometheus_client import CONTENT_TYPE_LATEST
from rest_framework.settings import api_settings

from rl.base import logs
from rl.faults import Fault, fault_of
from rl.operations.audit import Caller, acting_for
from rl.operations.metrics import exposition
from rl.web.api.problems import MEDIA_TYPE, document
from rl.web.client_address import client_network
from rl.web.languages import digest

log = logging.getLogger(__name__)
PATH: Final = "/metrics"
_FORWARDED: Final = ("X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Real-IP", "Forwarded", "Via")


def answer_metrics(get_response: Callable[[HttpRequest], HttpResponse]) -> Callable[[HttpRequest], HttpResponse]:
    """Middleware that answers before hosts and https are looked at: Prometheus asks by IP, from inside."""
    return lambda request: _answer(request) if request.path_info == PATH else get_response(request)


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


ZONE: Final = "time_zone"
"""The cookie in which ``static/rl/zone.js`` keeps what zone the browser is set to."""


def answer_in_readers_zone(
    get_response: Callable[[HttpRequest], HttpResponse],
) -> Callable[[HttpRequest], HttpResponse]:
    """Middleware: times of pages are the reader's; UTC where the browser has not said which that is."""

    def answer(request: HttpRequest) -> HttpResponse:
        with timezone.override(_zone(request.COOKIES.get(ZONE, ""))):
            return get_response(request)

    return answer


@lru_cache(maxsize=1000)
def _zone(name: str) -> ZoneInfo | None:
    try:
        return ZoneInfo(name) if name else None
    except (KeyError, ValueError, OSError):  # of a zone that this machine does not know; of what names none
        return None


def version(_: HttpRequest) -> dict[str, str]:
    """A context processor: what every page may show of this installation."""
    return {"ratchet_version": settings.VERSION, "words_digest": digest()}


class FaultMiddleware(MiddlewareMixin):
    """Answers what views raise; what middleware raises goes to ``answer_error``."""

    def process_exception(self, request: HttpRequest, error: Exception) -> HttpResponse | None:
        fault = fault_of(error)
        return answer_fault(request, fault, error) if fault else None


def answer_error(request: HttpRequest) -> HttpResponse:
    """Django's ``handler500``."""
    error = sys.exc_info()[1]
    fault = fault_of(error) if error else None
    return answer_fault(request, fault, error) if fault else server_error(request)


def answer_bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Django's ``handler400``. A session that cannot be saved is the client's mistake in its eyes."""
    error: BaseException | None = exception
    while error is not None:
        if fault := fault_of(error):
            return answer_fault(request, fault, error)
        error = error.__cause__ or error.__context__
    return bad_request(request, exception)


def answer_fault(request: HttpRequest, fault: Fault, error: BaseException | None) -> HttpResponse:
    log.error("%s %s: %s: %s", request.method, request.path, type(error).__name__, error)
    answer: HttpResponse
    if not request.path_info.startswith(("/api/", "/v1/")) and not request.path.endswith(".json"):
        page = render_to_string("rl/fault.html", {"fault": fault})
        answer = HttpResponse(page, status=fault.status)
    else:
        problem = document(fault.code, fault.status, fault.detail)
        answer = JsonResponse(problem, status=fault.status, content_type=MEDIA_TYPE)
    answer["Retry-After"] = str(fault.retry_seconds)
    add_never_cache_headers(answer)
    return answer
