"""The answer to whoever has guessed a password too often. Counting is django-axes'; see "log-in" in the settings."""

from __future__ import annotations

from datetime import datetime
from math import ceil

from axes.handlers.database import AxesDatabaseHandler
from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.utils.cache import add_never_cache_headers

NAME_LENGTH = 150
"""The longest user name there is."""

Credentials = dict[str, str]


def name_tried(request: HttpRequest, credentials: Credentials | None) -> str:
    """A longer one belongs to nobody, but must fit into the table of failures."""
    return str((credentials or request.POST).get("username") or "")[:NAME_LENGTH]


def locked_out(request: HttpRequest, response: HttpResponse | None, credentials: Credentials | None) -> HttpResponse:
    ends = lock_ends(request, credentials)
    seconds = max(1, ceil((ends - timezone.now()).total_seconds()))
    page = render(request, "429.html", {"ends": ends, "minutes": ceil(seconds / 60)}, status=429)
    page["Retry-After"] = str(seconds)
    add_never_cache_headers(page)
    return page


def lock_ends(request: HttpRequest, credentials: Credentials | None) -> datetime:
    """When enough failures will be too old to count that another try is let through."""
    (failures,) = AxesDatabaseHandler().get_user_attempts(request, credentials)
    rows = list(failures.order_by("attempt_time").values_list("attempt_time", "failures_since_start"))
    counting = sum(count for _, count in rows)
    for time, count in rows:
        counting -= count
        if counting < settings.AXES_FAILURE_LIMIT:
            return time + settings.AXES_COOLOFF_TIME
    return timezone.now()
