"""The widget on a foreign page."""

from __future__ import annotations

from urllib.parse import urlsplit

from csp.decorators import csp_replace
from django.conf import settings
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from rl.models import ApiKey, Trace

ANSWERS, NEWEST = 3, 200
LOOPBACK = ("127.0.0.1", "localhost")


@require_safe
def embedded_widget(request: HttpRequest) -> HttpResponse:
    """Somebody's page with the rating widget in it. Development only: it shows answers to whoever asks."""
    if not settings.DEBUG:
        raise Http404
    # The widget is loaded from, and talks to, the public address, as on a page of another site.
    api = _api_origin(request)
    sources = {"script-src": ["'self'", api], "connect-src": [api]}
    return csp_replace(sources)(_render)(request)


def _render(request: HttpRequest) -> HttpResponse:
    answers = [
        {"trace": trace.pk, "question": trace.question, "answer": trace.response}
        for trace in _rateable_with(request.GET.get("key", "")).exclude(response="")[:ANSWERS]
    ]
    api = _api_origin(request)
    context = {
        "api_origin": api,
        "widget_url": f"{api}/static/rl/ratchet-feedback.js",
        "answers": answers,
        "pair": _find_pair(request.GET.get("key", "")),
    }
    return render(request, "rl/embed_demo.html", context)


def _find_pair(key: str) -> dict[str, object] | None:
    """Two different answers to the same prompt, of the newest that have one another."""
    newest: dict[tuple[int, str], Trace] = {}
    for trace in _rateable_with(key).exclude(response="")[:NEWEST]:
        other = newest.setdefault((trace.agent_id, trace.prompt_key), trace)
        if other.response != trace.response:
            texts = {"question": trace.question, "answer": trace.response, "other_answer": other.response}
            return {"trace": trace.pk, "other": other.pk, **texts}
    return None


def _api_origin(request: HttpRequest) -> str:
    """SITE_URL; on this machine the port that the page came from, as a server started by hand has another one."""
    site = urlsplit(settings.SITE_URL)
    port = urlsplit(f"//{request.get_host()}").port
    return f"{site.scheme}://{site.hostname}:{port}" if site.hostname in LOOPBACK and port else settings.SITE_URL


def _rateable_with(key: str) -> QuerySet[Trace]:
    """A key that is bound to an agent rates that agent's answers only."""
    api_key = ApiKey.find(key)
    return Trace.objects.filter(agent=api_key.agent) if api_key and api_key.agent else Trace.objects.all()
