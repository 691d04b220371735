"""What all calls share."""

import time
from collections.abc import Mapping
from hashlib import sha256
from types import MappingProxyType
from typing import Any

from django.conf import settings
from django.core.cache import cache
from django.db.models import QuerySet
from django.utils.decorators import method_decorator
from django.views.decorators.http import conditional_page
from django_filters.rest_framework import FilterSet
from drf_spectacular.utils import extend_schema
from rest_framework import status
from rest_framework.exceptions import NotFound, ValidationError
from rest_framework.generics import GenericAPIView
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.serializers import BaseSerializer
from rest_framework.throttling import BaseThrottle
from rest_framework.views import APIView

from rl.base.names import unknown_name
from rl.collect.storable import unstorable
from rl.collect.traces.rows import agents_named
from rl.models import Agent, ApiKey
from rl.web.api.auth import allow_origin_of_publishable_key, key_of, visible_to
from rl.web.client_address import client_address

WINDOW_SECONDS = 60


class RequestsPerMinute(BaseThrottle):
    """API_REQUESTS_PER_MINUTE for each secret key, and for each client address of a publishable one.

    Counts in Django's default cache. Where that is local memory, each web process counts for itself (n processes let n
    times as much through), and forgets the rarest callers when there are more than the cache holds (MAX_ENTRIES). An
    address is taken from X-Forwarded-For only as far as NUM_PROXIES says that it can be trusted."""

    def allow_request(self, request: Request, view: Any) -> bool:
        window = int(time.time()) // WINDOW_SECONDS
        return _count(f"api:{self._caller(request)}:{window}") <= settings.API_REQUESTS_PER_MINUTE

    def wait(self) -> float:
        """Seconds until the next window."""
        return WINDOW_SECONDS - int(time.time()) % WINDOW_SECONDS

    def _caller(self, request: Request) -> str:
        key = request.auth
        if isinstance(key, ApiKey) and key.kind == ApiKey.Kind.SECRET:
            return str(key.pk)
        # An address that a client makes up may hold anything; a cache key may not.
        address = "".join(c if c.isalnum() or c in ".:" else "_" for c in client_address(request))[:64]
        return f"{key.pk if isinstance(key, ApiKey) else 'none'}:{address}"


def _count(name: str) -> int:
    try:
        return cache.incr(name)
    except ValueError:  # nobody called in this minute yet
        if cache.add(name, 1, timeout=2 * WINDOW_SECONDS):
            return 1
    try:
        return cache.incr(name)
    except ValueError:  # thrown out of a full cache between the two calls
        return 1


@method_decorator(conditional_page, name="dispatch")
class ApiView(GenericAPIView):
    """Rows are those that the caller's key may see: what belongs to another agent does not exist for it. What is read has an
    ETag, and is not sent again to who has it."""

    scopes: Mapping[str, str] = MappingProxyType({})
    """What each method needs (rl/web/api/auth.py)."""
    key_header: str = ""
    """A header that may hold the key, and nothing else, where there is no ``Authorization``."""
    throttle_classes = [RequestsPerMinute]
    filterset_class: type[FilterSet] | None = None

    @property
    def key(self) -> ApiKey:
        return key_of(self.request)

    def filter_queryset(self, queryset: QuerySet) -> QuerySet:
        return super().filter_queryset(visible_to(self.key, queryset))

    @property
    def repeat_name(self) -> str:
        """24 hexadecimal digits for the request's Idempotency-Key, another one for each API key; empty without one. What is
        made under a name that is there already is the same thing, sent again."""
        given = self.request.headers.get("Idempotency-Key", "").strip()
        return sha256(f"{self.key.pk} {given}".encode()).hexdigest()[:24] if given else ""

    def find_agent(self, name: str) -> Agent:
        """By its name. Raises NotFound, also for an agent that the key is not for."""
        agent = None if unstorable(name) else agents_named([name]).get(name.lower())
        if agent is None or self.key.agent_id not in (None, agent.pk):
            raise NotFound(f"there is no agent {name[:100]!r}, or this key is not for it")
        return agent

    def check_body(self, serializer: type[BaseSerializer]) -> dict[str, Any]:
        """The request body. Raises ValidationError."""
        bound = serializer(data=self.request.data)
        bound.is_valid(raise_exception=True)
        return bound.validated_data

    def list_rows(self, serializer: type[BaseSerializer]) -> Any:
        """One page of the rows that the query parameters ask for. Raises ValidationError for an unknown parameter."""
        self.refuse_unknown_parameters(
            *(self.filterset_class.base_filters if self.filterset_class else ()), "cursor", "limit"
        )
        page = self.paginate_queryset(self.filter_queryset(self.get_queryset()))
        return self.get_paginated_response(serializer(page, many=True).data)

    def refuse_unknown_parameters(self, *known: str) -> None:
        """Empty ones too: a filter whose value got lost would give everything. Raises ValidationError."""
        parameters = self.request.query_params
        errors = {name: ["must not be empty; leave it out"] for name in known if parameters.get(name) == ""}
        unknown = sorted(set(parameters) - set(known))
        errors |= {name: [unknown_name("parameter", name, sorted(known))] for name in unknown}
        if errors:
            raise ValidationError(errors)


def success(created: bool) -> int:
    """The status of an answer to POST: whether what was sent is new, or was there already."""
    return status.HTTP_201_CREATED if created else status.HTTP_200_OK


@extend_schema(exclude=True)
class UnknownAddress(APIView):
    """Every other address below the API, so that a program never has to read an HTML page."""

    authentication_classes = ()
    permission_classes = ()

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        raise NotFound(f"there is nothing at {request.path[:200]}; every address ends with '/', see /api/docs/")


class OriginCheck(APIView):
    """Whether a page may rate at all, in words that its widget can read.

    A browser hides the refusal of an origin that no key names: to the widget it looks like a network that is down. This one
    answer is readable from every page, and says of the asking page alone what its browser would find out anyway."""

    schema = None
    authentication_classes = ()
    permission_classes = ()
    throttle_classes = [RequestsPerMinute]

    def get(self, request: Request, **kwargs: Any) -> Response:
        may_rate = allow_origin_of_publishable_key(request._request)
        headers = {"Access-Control-Allow-Origin": "*", "Cache-Control": "no-store"}
        return Response({"may_rate": may_rate}, headers=headers)
