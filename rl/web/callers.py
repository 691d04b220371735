"""Who calls, and with which request: what the audit log and the lines of the log say of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from django.http import HttpRequest, HttpResponse

from rl.base import logs
from rl.operations.audit import Caller, acting_for
from rl.web.client_address import client_network

HEADER: Final = "X-Request-ID"


class CallerMiddleware:
    """The request has its number from the front already, where there is one (rl/web/front/observing.py)."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        number = logs.request_id.get() or logs.request_number(request.headers.get(HEADER, ""))
        caller = Caller(address=client_network(request) or "", request=request)
        with logs.about(logs.request_id, number), acting_for(caller):
            response = self.get_response(request)
        response[HEADER] = number
        return response
