"""Browsers that somebody has signed in with before, known by a signed cookie for each name.

Their wrong passwords are counted apart (https://owasp.org/www-community/Slow_Down_Online_Guessing_Attacks_with_Device_Cookies),
so that whoever guesses somebody's password from elsewhere locks himself out, and not the owner.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable
from datetime import timedelta
from typing import Any, Final

from django.conf import settings
from django.contrib.auth.models import User
from django.contrib.auth.signals import user_logged_in
from django.core import signing
from django.http import HttpRequest, HttpResponse

KNOWN_FOR: Final = timedelta(days=180)
_SALT: Final = "rl.web.devices"


class DeviceMiddleware:
    """Gives the browser its cookie after a sign-in. A new one each time: what is stolen serves until then at most."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self.get_response(request)
        if name := getattr(request, "signed_in_as", None):
            response.set_cookie(
                _cookie(name),
                signing.dumps({"name": name, "device": secrets.token_hex(16)}, salt=_SALT),
                max_age=KNOWN_FOR,
                secure=settings.SESSION_COOKIE_SECURE,
                httponly=True,
                samesite="Lax",
            )
        return response


def known_device(request: HttpRequest, name: str) -> str:
    """What distinguishes this browser from others, if somebody signed in from it by this name before; else empty."""
    try:
        cookie = signing.loads(request.COOKIES.get(_cookie(name), ""), salt=_SALT, max_age=KNOWN_FOR)
    except signing.BadSignature:
        return ""
    return f"device {cookie['device']}" if cookie["name"] == name else ""


def remember(sender: Any, request: HttpRequest, user: User, **kwargs: Any) -> None:
    request.signed_in_as = user.get_username()  # type: ignore[attr-defined]


user_logged_in.connect(remember)


def _cookie(name: str) -> str:
    """Several people may share a browser."""
    return f"device_{hashlib.sha256(name.encode()).hexdigest()[:12]}"
