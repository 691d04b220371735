"""Who is calling: API keys in ``Authorization: Bearer sk_…`` (servers) or ``pk_…`` (browsers)."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, TypeVar

from django.db.models import Model, Q, QuerySet
from django.utils import timezone
from rest_framework.authentication import BaseAuthentication
from rest_framework.exceptions import AuthenticationFailed, PermissionDenied, ValidationError
from rest_framework.permissions import BasePermission
from rest_framework.request import Request

from rl.models import ApiKey

USE_WRITTEN_EVERY = timedelta(minutes=1)
DEVICE, USER = "device:", "user:"
"""Prefixes of raters: a browser that holds a publishable key; a person who signed in on this site."""

Row = TypeVar("Row", bound=Model)


class ApiKeyAuthentication(BaseAuthentication):
    """``request.auth`` becomes the ApiKey; there is no user."""

    def authenticate(self, request: Request) -> tuple[None, ApiKey] | None:
        header = request.headers.get("Authorization", "")
        if not header:
            return None
        scheme, _, key = header.partition(" ")
        if scheme.lower() != "bearer" or not key.strip():
            raise AuthenticationFailed("send the API key as 'Authorization: Bearer sk_…'")
        found = ApiKey.find(key.strip())
        if found is None:
            raise AuthenticationFailed("this API key is unknown or was revoked")
        _note_use(found)
        return None, found

    def authenticate_header(self, request: Request) -> str:
        return 'Bearer realm="Ratchet API"'


class HasSecretKey(BasePermission):
    message = "this needs a secret key (sk_…); a publishable key may only rate"

    def has_permission(self, request: Request, view: Any) -> bool:
        return isinstance(request.auth, ApiKey) and request.auth.kind == ApiKey.Kind.SECRET


class MayRate(BasePermission):
    """A secret key, or a publishable one from a page that it was made for.

    Checked here because CORS headers only tell browsers what to do; the Origin header of a browser cannot be forged by
    the page in it.
    """

    def has_permission(self, request: Request, view: Any) -> bool:
        if not isinstance(request.auth, ApiKey):
            return False
        if request.auth.kind == ApiKey.Kind.PUBLISHABLE:
            _check_origin(request, request.auth)
        return True


def key_of(request: Request) -> ApiKey:
    """The caller's key, in views that no one enters without."""
    if not isinstance(request.auth, ApiKey):
        raise PermissionDenied
    return request.auth


def visible_to(key: ApiKey, rows: QuerySet[Row]) -> QuerySet[Row]:
    """Of traces or feedback: those of the key's agent, or all where the key is bound to none."""
    return rows if key.agent_id is None else rows.filter(agent=key.agent_id)


def rater_for(key: ApiKey, name: str) -> str:
    """Raises ValidationError: nobody speaks for the people who sign in here."""
    if key.kind == ApiKey.Kind.PUBLISHABLE:
        return DEVICE + name
    if name.strip().lower().startswith(USER):
        raise ValidationError({"rater": f"names that start with {USER!r} belong to people who sign in here"})
    return name


def _check_origin(request: Request, key: ApiKey) -> None:
    origin = request.headers.get("Origin")
    if origin is None:
        raise PermissionDenied("a publishable key works in browsers only: the request has no Origin header")
    if origin not in key.allowed_origins:
        raise PermissionDenied(f"the origin {origin[:200]!r} is not among those that this key works from")


def _note_use(key: ApiKey) -> None:
    """Once a minute, so that reading stays reading."""
    now = timezone.now()
    due = now - USE_WRITTEN_EVERY
    if key.last_used_at is None or key.last_used_at < due:
        unused = Q(last_used_at__isnull=True) | Q(last_used_at__lt=due)
        ApiKey.objects.filter(unused, pk=key.pk).update(last_used_at=now)
