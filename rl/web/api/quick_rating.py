"""A rating as it nearly always comes, answered without the machinery around other requests.

``POST /api/v1/feedback/`` with one valid rating in JSON and a key that may send it. Keys, checks, limits and writing are
those of the API's view (rl/web/api/feedback.py); everything that is not such a rating goes on to that view, which says what
is wrong. What is saved, sessions, routing and content negotiation, costs more than the rating itself
(docs/decisions/ratings.md)."""

import json
from collections.abc import Callable, Mapping
from typing import Any, Final, cast

from django.conf import settings
from django.core.exceptions import SuspiciousOperation
from django.http import HttpRequest, HttpResponse
from rest_framework.exceptions import APIException
from rest_framework.request import Request

from rl.models import ApiKey
from rl.web.api.auth import RATE, ApiKeyAuthentication, find_key, require
from rl.web.api.base import RequestsPerMinute
from rl.web.api.feedback_writing import IN, answer_to, kind_of, store_checked
from rl.web.api.parsers import parse_json
from rl.web.api.problems import MEDIA_TYPE, problem_response
from rl.web.client_address import address_digest

PATH: Final = "/api/v1/feedback/"
JSON: Final = "application/json"
RATING: Final = "rating"
_authentication = ApiKeyAuthentication(find_key)
_throttle = RequestsPerMinute()


def answer_ratings(get_response: Callable[[HttpRequest], HttpResponse]) -> Callable[[HttpRequest], HttpResponse]:
    """Middleware, within those that write headers and above all that ratings do not need."""

    def answer(request: HttpRequest) -> HttpResponse:
        is_rating = request.method == "POST" and request.path_info == PATH
        return (is_rating and _try_to_answer(request)) or get_response(request)

    return answer


def _try_to_answer(request: HttpRequest) -> HttpResponse | None:
    """None: the view is to answer."""
    request.get_host()  # raises DisallowedHost
    checked = _check(request)
    if checked is None:
        return None
    key, data = checked
    try:
        outcome = store_checked(key, RATING, data, address_digest(request))
    except Exception as error:
        refused = problem_response(error, {})
        if refused is None:
            raise
        return _response(refused.data, refused.status_code, {**refused.headers, "Content-Type": MEDIA_TYPE})
    return _response(*answer_to(outcome))


def _check(request: HttpRequest) -> tuple[ApiKey, dict[str, Any]] | None:
    if (
        request.content_type != JSON
        or request.META.get("QUERY_STRING")
        or request.headers.get("Accept") not in (None, "*/*", JSON)
    ):
        return None
    as_view = cast("Request", request)  # headers, and an attribute ``auth``, are all that is asked of it
    try:
        authenticated = _authentication.authenticate(as_view)
        if authenticated is None:
            return None
        key = authenticated[1]
        require(key, RATE, as_view, takes_tokens=True)
        document = parse_json(request.body)
        if kind_of(document) != RATING:
            return None
        data = IN[RATING].run_validation(document)
    except (APIException, SuspiciousOperation):
        return None
    request.auth = key  # type: ignore[attr-defined]
    return (key, data) if _throttle.allow_request(as_view, None) else None


def _response(document: Any, status: int, headers: Mapping[str, str] | None = None) -> HttpResponse:
    body = json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()
    all_headers = {"Content-Type": JSON, "X-Frame-Options": settings.X_FRAME_OPTIONS, **(headers or {})}
    return HttpResponse(body, status=status, headers={**all_headers, "Content-Length": str(len(body))})
