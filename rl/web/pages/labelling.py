"""Where people have labelled traces one after the other: a queue of the rating page now."""

from __future__ import annotations

from django.contrib.auth.decorators import login_required, permission_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.views.decorators.http import require_safe

from rl.models import Agent
from rl.queues.builtin import LABELS


@require_safe
@login_required
@permission_required(["rl.view_trace", "rl.add_feedback"], raise_exception=True)
def label_traces(request: HttpRequest, name: str) -> HttpResponse:
    return redirect("rate_queue", get_object_or_404(Agent, name=name).name, LABELS)
