"""The answer to whoever has guessed a password too often; see rl.web.sign_in_limits."""

from __future__ import annotations

from math import ceil

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.utils.cache import add_never_cache_headers

from rl.web.sign_in_limits import Credentials, lock_ends


def locked_out(request: HttpRequest, response: HttpResponse | None, credentials: Credentials | None) -> HttpResponse:
    ends = lock_ends(request, credentials)
    seconds = max(1, ceil((ends - timezone.now()).total_seconds()))
    page = render(request, "429.html", {"ends": ends, "minutes": ceil(seconds / 60)}, status=429)
    page["Retry-After"] = str(seconds)
    add_never_cache_headers(page)
    return page
