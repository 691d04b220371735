"""Who is calling, and may they: API keys in ``Authorization: Bearer sk_…`` (servers) or ``pk_…`` (browsers).

Each view says which scope each of its methods needs; a method that says nothing is refused."""

import re
import threading
import time
from collections.abc import Callable, Hashable
from datetime import timedelta
from typing import Any, Final, Generic, TypeVar
from unicodedata import normalize

from django.conf import settings
from django.db.models import Model, Q, QuerySet
from django.http import HttpRequest
from django.utils import timezone
from rest_framework.authentication import BaseAuthentication
from rest_framework.exceptions import AuthenticationFailed, MethodNotAllowed, PermissionDenied, ValidationError
from rest_framework.permissions import BasePermission
from rest_framework.request import Request

from rl.models import Agent, ApiKey
from rl.operations import audit
from rl.serving.gateway.table import REFRESH_SECONDS

MOST = 10_000
"""Rows of each kind that a process remembers; when there are more, it forgets all and begins anew."""
Name = TypeVar("Name", bound=Hashable)
Found = TypeVar("Found")


class Known(Generic[Name, Found]):
    """What ``read`` gave for a name, for REFRESH_SECONDS as in the gateway. What was made just now is there at once: that
    there is nothing is not remembered."""

    def __init__(self, read: Callable[[Name], Found | None]) -> None:
        self._read = read
        self._rows: dict[Name, tuple[float, Found]] = {}
        self._lock = threading.Lock()

    def get(self, name: Name) -> Found | None:
        """Raises DatabaseError."""
        now = time.monotonic()
        read_at, row = self._rows.get(name, (0.0, None))
        if row is not None and now - read_at < REFRESH_SECONDS:
            return row
        row = self._read(name)
        with self._lock:
            if len(self._rows) >= MOST:
                self._rows.clear()
            if row is None:
                self._rows.pop(name, None)
            else:
                self._rows[name] = (now, row)
        return row

    def clear(self) -> None:
        with self._lock:
            self._rows.clear()


keys: Known[str, ApiKey] = Known(lambda digest: ApiKey.valid().filter(digest=digest).select_related("agent").first())
"""API keys by their digest."""
agents: Known[int, Agent] = Known(lambda pk: Agent.objects.only("name").filter(pk=pk).first())


def forget() -> None:
    keys.clear()
    agents.clear()


def find_key(key: str) -> ApiKey | None:
    """Notices within REFRESH_SECONDS that it was revoked, and at once that it expired."""
    row = keys.get(ApiKey.digest_of(key))
    return None if row is None or row.has_expired() else row


def bearer_of(header: str) -> str:
    """The key in ``Authorization``; empty where it has none."""
    scheme, _, secret = header.replace("%20", " ", 1).partition(" ")  # some exporters send their setting as it is
    return secret.strip() if scheme.lower() == "bearer" else ""


DEVICE, USER, INVITE = "device:", "user:", "invite:"
"""Prefixes of the raters whom this site names: a browser that holds a publishable key; a person who signed in; a guest."""

INGEST, READ = ApiKey.Scope.INGEST.value, ApiKey.Scope.READ.value
TRAIN, DEPLOY = ApiKey.Scope.TRAIN.value, ApiKey.Scope.DEPLOY.value
RATE: Final = "rate"
"""What rating calls need: ``ingest`` of a secret key, or a publishable key from a page that it was made for."""

Row = TypeVar("Row", bound=Model)


class ApiKeyAuthentication(BaseAuthentication):
    """``request.auth`` becomes the ApiKey; there is no user."""

    def __init__(self, find: Callable[[str], ApiKey | None] = ApiKey.find) -> None:
        self._find = find

    def authenticate(self, request: Request) -> tuple[None, ApiKey] | None:
        header = request.headers.get("Authorization", "")
        if not header:
            # Calls for what comes often pass Django's request.
            view = getattr(request, "parser_context", {}).get("view")
            bare = request.headers.get(getattr(view, "key_header", "") or "-", "").strip()
            return self.recognise(bare) if bare else None
        secret = bearer_of(header)
        if not secret:
            raise AuthenticationFailed("send the API key as 'Authorization: Bearer sk_…'")
        return self.recognise(secret)

    def recognise(self, secret: str) -> tuple[None, ApiKey]:
        """Raises AuthenticationFailed."""
        key = self._find(secret)
        if key is None:
            raise AuthenticationFailed("this API key is unknown, was revoked, or has expired")
        # once a minute, so that reading stays reading
        now = timezone.now()
        due = now - timedelta(minutes=1)
        if key.last_used_at is None or key.last_used_at < due:
            unused = Q(last_used_at__isnull=True) | Q(last_used_at__lt=due)
            ApiKey.objects.filter(unused, pk=key.pk).update(last_used_at=now)
            key.last_used_at = now
        audit.name_caller(f"key:{key.pk} {key.name}")
        return None, key

    def authenticate_header(self, request: Request) -> str:
        return 'Bearer realm="Ratchet API"'


class MayCall(BasePermission):
    """By ``scopes`` of the view: method to scope, or to RATE. What GET needs, HEAD needs; OPTIONS needs ``read``."""

    def has_permission(self, request: Request, view: Any) -> bool:
        if not isinstance(request.auth, ApiKey):
            return False
        method = str(request.method)
        if method not in view.allowed_methods:
            raise MethodNotAllowed(method)
        scopes = getattr(view, "scopes", {})
        scope = scopes.get(method, {"HEAD": scopes.get("GET"), "OPTIONS": READ}.get(method))
        require(request.auth, scope, request, takes_tokens=getattr(view, "takes_tokens", False))
        return True


def require(key: ApiKey, scope: str | None, request: Request, *, takes_tokens: bool = False) -> None:
    """Raises PermissionDenied that names what is missing. None: nobody may. ``takes_tokens``: the call checks the tokens
    that its bodies bring; a key that needs them may make no other."""
    if scope is None:
        raise PermissionDenied("no key may do this")
    if key.kind == ApiKey.Kind.PUBLISHABLE:
        if scope != RATE:
            raise PermissionDenied("this needs a secret key (sk_…); a publishable key may only rate here")
        # Here too, because CORS headers only tell browsers what to do; a page cannot forge its browser's Origin header.
        origin = request.headers.get("Origin")
        if origin is None:
            raise PermissionDenied("a publishable key works in browsers only: the request has no Origin header")
        if origin not in key.allowed_origins:
            raise PermissionDenied(f"the origin {origin[:200]!r} is not among those that this key works from")
        if key.needs_tokens and not takes_tokens:
            raise PermissionDenied("this key needs tokens, which this call does not take: use /api/v1/feedback/")
        return
    scope = INGEST if scope == RATE else scope
    if scope not in key.scopes:
        has = ", ".join(key.scopes) or "none"
        raise PermissionDenied(f"this needs a key with the scope {scope!r}; the scopes of this key: {has}")


def allow_origin_of_publishable_key(request: HttpRequest, **kwargs: Any) -> bool:
    """For corsheaders' ``check_request_enabled``.

    A preflight carries no key, so any publishable key that is valid vouches for its origins; which key works from
    which page is checked when the request itself comes. Answers for no other path: True would open it."""
    origin = request.headers.get("Origin")
    if not origin or not re.match(settings.CORS_URLS_REGEX, request.path_info):
        return False
    used = getattr(request, "auth", None)  # set once the key was read: saves the query
    if isinstance(used, ApiKey) and origin in used.allowed_origins:
        return True
    publishable = ApiKey.valid().filter(kind=ApiKey.Kind.PUBLISHABLE)
    return any(origin in origins for origins in publishable.values_list("allowed_origins", flat=True))


def key_of(request: Request) -> ApiKey:
    """The caller's key, in views that no one enters without."""
    if not isinstance(request.auth, ApiKey):
        raise PermissionDenied
    return request.auth


def visible_to(key: ApiKey, rows: QuerySet[Row]) -> QuerySet[Row]:
    """The traces or feedback that the key may see: those of its agent, or all where it is bound to none."""
    return rows if key.agent_id is None else rows.filter(agent=key.agent_id)


def rater_for(key: ApiKey, name: str) -> str:
    """Raises ValidationError: nobody speaks for those whom this site names, nor under a name that looks like theirs."""
    if key.kind == ApiKey.Kind.PUBLISHABLE:
        return DEVICE + name
    seen = name if name.isascii() else "".join(filter(str.isprintable, normalize("NFKC", name)))
    if seen.strip().lower().startswith((DEVICE, USER, INVITE)):
        raise ValidationError(
            {"rater": f"names that start with {DEVICE!r}, {USER!r} or {INVITE!r} are given by this site: write another"}
        )
    return name
