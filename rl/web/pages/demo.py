"""The widget on a foreign page."""

from __future__ import annotations

from csp.decorators import csp_replace
from django.conf import settings
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from rl.models import ApiKey, Trace

ANSWERS = 3


@require_safe
def embedded_widget(request: HttpRequest) -> HttpResponse:
    """Somebody's page with the rating widget in it. Development only: it shows answers to whoever asks."""
    if not settings.DEBUG:
        raise Http404
    # The widget is loaded from, and talks to, the public address, as on a page of another site.
    sources = {"script-src": ["'self'", settings.SITE_URL], "connect-src": [settings.SITE_URL]}
    return csp_replace(sources)(_render)(request)


def _render(request: HttpRequest) -> HttpResponse:
    answers = [
        {"trace": trace.pk, "question": trace.question, "answer": trace.response}
        for trace in _rateable_with(request.GET.get("key", "")).exclude(response="")[:ANSWERS]
    ]
    context = {
        "api_origin": settings.SITE_URL,
        "widget_url": f"{settings.SITE_URL}/static/rl/ratchet-feedback.js",
        "answers": answers,
    }
    return render(request, "rl/embed_demo.html", context)


def _rateable_with(key: str) -> QuerySet[Trace]:
    """A key that is bound to an agent rates that agent's answers only."""
    api_key = ApiKey.find(key)
    return Trace.objects.filter(agent=api_key.agent) if api_key and api_key.agent else Trace.objects.all()
