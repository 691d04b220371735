"""Pages for people who are signed in. No cache keeps them."""

from __future__ import annotations

from collections.abc import Callable

from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_safe

View = Callable[..., HttpResponseBase]


def for_users(view: View) -> View:
    """Takes GET and HEAD."""
    return require_safe(never_cache(login_required(view)))


def for_users_who_post(view: View) -> View:
    """Takes POST too, of the page's own forms."""
    return require_http_methods(["GET", "HEAD", "POST"])(never_cache(login_required(view)))


def require_staff(request: HttpRequest, permission: str, refusal: str) -> None:
    """Raises PermissionDenied, with these words, but for staff who have it."""
    if not (request.user.is_staff and request.user.has_perm(permission)):
        raise PermissionDenied(refusal)
