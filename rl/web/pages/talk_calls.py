"""What each call of the pages under /try/ shares: who may, which agent it is about, and a problem as JSON."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from django.contrib.auth.decorators import login_required, permission_required
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import get_object_or_404
from django.views.decorators.cache import never_cache

from rl.base.errors import RatchetError
from rl.models import Agent
from rl.web.raters import signed_in

MAY_TALK = "rl.add_feedback"

View = Callable[..., HttpResponse]


def for_talkers(view: View) -> View:
    """Signed in, and may rate; no cache keeps the answer."""
    return never_cache(login_required(permission_required(MAY_TALK, raise_exception=True)(view)))


def talk_call(view: View) -> View:
    """Calls ``view(request, agent, user, ...)`` for those who may; what it raises becomes ``{"error": ...}`` with 400."""

    @for_talkers
    @wraps(view)
    def call(request: HttpRequest, name: str, **parts: Any) -> HttpResponse:
        agent = get_object_or_404(Agent, name=name)
        try:
            return view(request, agent, signed_in(request), **parts)
        except RatchetError as error:
            return JsonResponse({"error": str(error)}, status=400)

    return call
