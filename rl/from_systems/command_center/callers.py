"""Who may use Command Center's addresses: an API key, or without any key a page of an origin that the operator switched on.

A page sends its origin by itself, and no other page can send it; a program can claim any. Whoever names an origin in
COMMAND_CENTER_ORIGINS so lets every program that reaches this server read and write these ratings."""

from typing import Any, NamedTuple

from django.conf import settings
from django.http import HttpRequest
from rest_framework.exceptions import AuthenticationFailed, PermissionDenied
from rest_framework.permissions import BasePermission
from rest_framework.request import Request

from rl.models import Agent, ApiKey
from rl.web.api.auth import RATE, READ, ApiKeyAuthentication, require

ADDRESSES = ("/api/ratings/", "/api/layer2/feedback/", "/api/layer2/rl-status/", "/api/layer2/rl-history/")
KEY_HEADER = "X-Feedback-Key"
"""Command Center's own header; it carries an API key of Ratchet here."""
SCOPES = {"GET": READ, "HEAD": READ, "OPTIONS": READ, "POST": RATE}
"""What a key needs."""


class PageCaller(NamedTuple):
    key: ApiKey | None
    agent_id: int | None
    """The only agent that is reached; None: all."""


class PageAuthentication(ApiKeyAuthentication):
    def authenticate(self, request: Request) -> tuple[None, ApiKey] | None:
        secret = request.headers.get(KEY_HEADER, "")
        if not secret or request.headers.get("Authorization"):
            return super().authenticate(request)
        key = self._find(secret)
        if key is None:
            raise PermissionDenied(f"the key in {KEY_HEADER} is unknown, was revoked, or has expired")
        return None, key


class MayRate(BasePermission):
    def has_permission(self, request: Request, view: Any) -> bool:
        if isinstance(request.auth, ApiKey):
            require(request.auth, view.scopes.get(str(request.method)), request)
        elif _origin(request) not in settings.COMMAND_CENTER_ORIGINS:
            raise AuthenticationFailed("send an API key, or name this page's origin in COMMAND_CENTER_ORIGINS")
        return True


def caller_of(request: Request) -> PageCaller:
    """Raises PermissionDenied where the origin is for an agent that does not exist."""
    if isinstance(request.auth, ApiKey):
        return PageCaller(request.auth, request.auth.agent_id)
    name = settings.COMMAND_CENTER_ORIGINS[_origin(request)]
    if not name:
        return PageCaller(None, None)
    agent_id = Agent.objects.filter(name__iexact=name).values_list("pk", flat=True).first()
    if agent_id is None:
        raise PermissionDenied(f"COMMAND_CENTER_ORIGINS names the agent {name}, which does not exist yet")
    return PageCaller(None, agent_id)


def allow_origin_of_page(request: HttpRequest, **kwargs: Any) -> bool:
    """For corsheaders' ``check_request_enabled``."""
    return request.path_info.startswith(ADDRESSES) and _origin(request) in settings.COMMAND_CENTER_ORIGINS


def _origin(request: HttpRequest | Request) -> str:
    return request.headers.get("Origin", "")
