"""Signing in, and changing one's own password: how many wrong passwords are let through in ``AXES_COOLOFF_TIME``, and who is
kept apart from whom.

django-axes counts rows of failures, by one number for all; here a single name from a single address, a name from wherever,
and an address with whatever names have numbers of their own.

Browsers that somebody has signed in with before are known by a signed cookie for each name. Their wrong passwords are
counted apart (https://owasp.org/www-community/Slow_Down_Online_Guessing_Attacks_with_Device_Cookies), so that whoever
guesses somebody's password from elsewhere locks himself out, and not the owner."""

import hashlib
import secrets
from collections.abc import Callable
from datetime import datetime, timedelta
from math import ceil
from typing import Any, Final, NamedTuple

from axes.attempts import get_cool_off_threshold
from axes.handlers.database import AxesDatabaseHandler
from axes.models import AccessAttempt
from django.conf import settings
from django.contrib import admin
from django.contrib.admin.forms import AdminPasswordChangeForm
from django.contrib.auth import authenticate
from django.contrib.auth.forms import AuthenticationForm
from django.contrib.auth.models import User
from django.contrib.auth.signals import user_logged_in
from django.contrib.auth.views import LoginView, PasswordChangeView
from django.core import signing
from django.core.exceptions import ValidationError
from django.db import transaction
from django.db.models import QuerySet, Sum
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.urls import reverse_lazy
from django.utils import timezone
from django.utils.cache import add_never_cache_headers

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
                path=settings.SESSION_COOKIE_PATH,
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


def remember(request: HttpRequest, user: User, **kwargs: Any) -> None:
    request.signed_in_as = user.get_username()  # type: ignore[attr-defined]


user_logged_in.connect(remember)


def _cookie(name: str) -> str:
    """Several people may share a browser."""
    return f"device_{hashlib.sha256(name.encode()).hexdigest()[:12]}"


PER_PAIR: Final = settings.AXES_FAILURE_LIMIT
"""Wrong passwords for one name from one address, or from one browser that it was signed in with before."""
PER_NAME: Final = 4 * PER_PAIR
"""Wrong passwords for one name, wherever they come from: many addresses do not help to guess one password."""
PER_ADDRESS: Final = 4 * PER_PAIR
"""Wrong passwords from one address, for whatever names: one password is not tried on everybody."""
NAME_LENGTH: Final = 150
"""The longest user name there is."""

Credentials = dict[str, str]


class Limit(NamedTuple):
    rows: QuerySet[AccessAttempt]
    """Failures that count."""
    failures: int


def name_tried(request: HttpRequest, credentials: Credentials | None) -> str:
    """A longer one belongs to nobody, but must fit into the table of failures."""
    return str((credentials or request.POST).get("username") or "")[:NAME_LENGTH]


def limits(request: Any, credentials: Credentials | None) -> list[Limit]:
    """The limits that hold for this try; the first is the one that a right password clears."""
    name, address = name_tried(request, credentials), request.axes_ip_address
    rows = AccessAttempt.objects
    if device := known_device(request, name):
        return [Limit(rows.filter(username=name, user_agent=device), PER_PAIR)]
    everywhere = [
        Limit(rows.filter(username=name, ip_address=address), PER_PAIR),
        Limit(rows.filter(username=name), PER_NAME),
    ]
    return [*everywhere, Limit(rows.filter(ip_address=address), PER_ADDRESS)] if address else everywhere


class SignInLimits(AxesDatabaseHandler):
    """Named by AXES_HANDLER."""

    def get_failures(self, request: Any, credentials: Credentials | None = None) -> int:
        """Failures that count towards the limit that is nearest, scaled to AXES_FAILURE_LIMIT, which axes compares with."""
        since, counted = get_cool_off_threshold(request), Sum("failures_since_start")
        return max(
            (rows.filter(attempt_time__gte=since).aggregate(sum=counted)["sum"] or 0) * PER_PAIR // most
            for rows, most in limits(request, credentials)
        )

    def user_login_failed(self, sender: Any, credentials: Credentials, request: Any = None, **kwargs: Any) -> None:
        """Browsers are told apart only where they are known: what others say of themselves would make a row for each lie."""
        if request is not None:
            request.axes_user_agent = known_device(request, name_tried(request, credentials))
        super().user_login_failed(sender, credentials, request, **kwargs)

    def reset_user_attempts(self, request: Any, credentials: Credentials | None = None) -> int:
        """Only those of this name at this address: an account of one's own must not clear what was tried on others."""
        return limits(request, credentials)[0].rows.delete()[0]


def _end(limit: Limit, since: datetime) -> datetime:
    """When enough failures will be too old to count that another try is let through."""
    recent = limit.rows.filter(attempt_time__gte=since).order_by("attempt_time")
    rows = list(recent.values_list("attempt_time", "failures_since_start"))
    counting = sum(count for _, count in rows)
    if counting < limit.failures:
        return since + settings.AXES_COOLOFF_TIME
    for time, count in rows:
        counting -= count
        if counting < limit.failures:
            return time + settings.AXES_COOLOFF_TIME
    return timezone.now()


class SignIn(LoginView):
    redirect_authenticated_user = True

    def form_valid(self, form: AuthenticationForm) -> HttpResponse:
        """What is written where the password was right, in one transaction: each waits for its turn to write."""
        with transaction.atomic():
            answer = super().form_valid(form)
            self.request.session.save()
        return answer


def locked_out(request: HttpRequest, _: HttpResponse | None, credentials: Credentials | None) -> HttpResponse:
    since = get_cool_off_threshold(request)
    ends = max(_end(limit, since) for limit in limits(request, credentials))
    seconds = max(1, ceil((ends - timezone.now()).total_seconds()))
    page = render(request, "429.html", {"ends": ends, "minutes": ceil(seconds / 60)}, status=429)
    page["Retry-After"] = str(seconds)
    add_never_cache_headers(page)
    return page


class OldPasswordForm(AdminPasswordChangeForm):
    """The old one is asked for as at a sign-in, so that a session which somebody else got hold of does not let him guess
    it."""

    def __init__(self, *args: Any, request: HttpRequest, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.request = request

    def clean_old_password(self) -> str:
        old: str = self.cleaned_data["old_password"]
        if authenticate(self.request, username=self.user.get_username(), password=old) is None:
            raise ValidationError(self.error_messages["password_incorrect"], code="password_incorrect")
        return old


class ChangePassword(PasswordChangeView):
    form_class = OldPasswordForm
    success_url = reverse_lazy("admin:password_change_done")

    def get_form_kwargs(self) -> dict[str, Any]:
        return {**super().get_form_kwargs(), "request": self.request}

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        return {**super().get_context_data(**kwargs), **admin.site.each_context(self.request)}


@admin.site.admin_view
def change_password(request: HttpRequest) -> HttpResponseBase:
    return ChangePassword.as_view()(request)
