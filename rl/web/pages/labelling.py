"""The traces that nobody has labelled, one after the other, with all that the agent did."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.decorators import login_required, permission_required
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from rl.models import Agent, Trace
from rl.web import rating_queue
from rl.web.drawings import tags_of
from rl.web.pages.rating import Desk
from rl.web.trace_page import trace_context


@require_http_methods(["GET", "HEAD", "POST"])
@never_cache
@login_required
@permission_required(["rl.view_trace", "rl.add_feedback"], raise_exception=True)
def label_traces(request: HttpRequest, name: str) -> HttpResponse:
    return LabelDesk(request, get_object_or_404(Agent, name=name)).respond()


class LabelDesk(Desk):
    page = "traces"
    address = "label_agent"
    session_key = "labelling"

    def __init__(self, request: HttpRequest, agent: Agent) -> None:
        super().__init__(request, agent)
        self.wants_json = False

    def queue(self) -> QuerySet[Trace]:
        return rating_queue.unlabelled_traces(self.agent).select_related(
            "agent", "model_version", "label_proposal", "episode"
        )

    def _answer(self, trace: Trace | None) -> HttpResponse:
        context: dict[str, Any] = {
            "page": self.page,
            "agent": self.agent,
            "tags": tags_of(trace),
            "decisions": self.decisions(),
            **(trace_context(trace) if trace else {}),
        }
        return render(self.request, "rl/label.html", context)
