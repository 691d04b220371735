"""The page where people sign in, and the answer to whoever has guessed a password too often (rl.web.sign_in_limits)."""

from __future__ import annotations

from math import ceil

from django.contrib.auth.forms import AuthenticationForm
from django.contrib.auth.views import LoginView
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.utils.cache import add_never_cache_headers

from rl.web.sign_in_limits import Credentials, lock_ends


class SignIn(LoginView):
    redirect_authenticated_user = True

    def form_valid(self, form: AuthenticationForm) -> HttpResponse:
        """What is written where the password was right, in one transaction: each waits for its turn to write."""
        with transaction.atomic():
            answer = super().form_valid(form)
            self.request.session.save()
        return answer


def locked_out(request: HttpRequest, response: HttpResponse | None, credentials: Credentials | None) -> HttpResponse:
    ends = lock_ends(request, credentials)
    seconds = max(1, ceil((ends - timezone.now()).total_seconds()))
    page = render(request, "429.html", {"ends": ends, "minutes": ceil(seconds / 60)}, status=429)
    page["Retry-After"] = str(seconds)
    add_never_cache_headers(page)
    return page
