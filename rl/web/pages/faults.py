"""What a browser or a program gets when the machine is at fault. Neither page asks the database: it may be what is gone."""

from __future__ import annotations

import logging
import sys

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.template.loader import render_to_string
from django.utils.cache import add_never_cache_headers
from django.utils.deprecation import MiddlewareMixin
from django.views.defaults import bad_request, server_error

from rl.faults import Fault, fault_of
from rl.web.api.problems import MEDIA_TYPE, document

log = logging.getLogger(__name__)


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
    if not request.path.startswith(("/api/", "/v1/")) and not request.path.endswith(".json"):
        page = render_to_string("rl/fault.html", {"fault": fault})
        answer = HttpResponse(page, status=fault.status)
    else:
        problem = document(fault.code, fault.status, fault.detail)
        answer = JsonResponse(problem, status=fault.status, content_type=MEDIA_TYPE)
    answer["Retry-After"] = str(fault.retry_seconds)
    add_never_cache_headers(answer)
    return answer
