"""The dashboard."""

from __future__ import annotations

from django.conf import settings
from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from rl.base.disk_space import shortage
from rl.models import Trace
from rl.serving import machine
from rl.web import figures


@require_safe
@never_cache
@login_required
def dashboard(request: HttpRequest) -> HttpResponse:
    """For staff; people who may only rate go on to what they may do."""
    if not request.user.is_staff:
        if request.user.has_perm("rl.add_feedback"):
            return redirect("rate")
        raise PermissionDenied("You are signed in, but nobody has given you the permission to rate answers.")
    days = figures.feedback_per_day()
    agents, versions = figures.agents_and_versions()
    context = {
        "page": "dashboard",
        "shortage": shortage(settings.DATA_DIR, settings.MIN_FREE_BYTES),
        "days": days,
        "total": sum(count for _, count in days),
        "agents": agents,
        "agents_shown": figures.AGENTS,
        "versions": versions,
        "runs": figures.recent_runs(),
        "served": figures.served(),
        "experiments": figures.running_experiments(),
        "decisions": machine.decisions(),
        "has_traces": Trace.objects.exists(),
        "has_feedback": any(row.current for row in agents),
    }
    return render(request, "rl/dashboard.html", context)
