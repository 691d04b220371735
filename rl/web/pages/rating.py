"""One screen, one answer, one decision. A plain form; with JavaScript the same address answers in JSON."""

from __future__ import annotations

import uuid
from typing import Any

from django.contrib.auth.decorators import login_required, permission_required
from django.contrib.auth.models import User
from django.db.models import Exists, OuterRef, QuerySet
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_safe
from django.views.decorators.vary import vary_on_headers

from rl.base.errors import RatchetError, UsageError
from rl.base.names import unknown_name
from rl.collect.feedback.write import retract
from rl.models import Agent, Feedback, Trace
from rl.web import rating_queue
from rl.web.drawings import drawing_of, tags_of
from rl.web.pages.rating_form import posted_trace, rate_as_posted
from rl.web.rating_filters import Selection
from rl.web.rating_queue import QueuePosition

SOURCE = "rating_page"
AGENTS = 200


@require_safe
@never_cache
@login_required
@permission_required("rl.add_feedback", raise_exception=True)
def choose_agent(request: HttpRequest) -> HttpResponse:
    """One agent with answers needs no choice."""
    answers = Trace.objects.filter(agent=OuterRef("pk")).exclude(response="")
    agents = list(Agent.objects.filter(Exists(answers.order_by()))[:AGENTS])
    if len(agents) == 1:
        return redirect("rate_agent", name=agents[0].name)
    return render(request, "rl/rate_choose.html", {"page": "rate", "agents": agents})


@require_http_methods(["GET", "HEAD", "POST"])
@never_cache
@vary_on_headers("Accept")
@login_required
@permission_required("rl.add_feedback", raise_exception=True)
def rate_answers(request: HttpRequest, name: str) -> HttpResponse:
    return Desk(request, get_object_or_404(Agent, name=name)).respond()


class Desk:
    """One rater at work on one agent's queue, for one request."""

    page = "rate"
    address = "rate_agent"
    session_key = "rating"

    def __init__(self, request: HttpRequest, agent: Agent) -> None:
        assert isinstance(request.user, User)  # noqa: S101  login_required saw to it
        self.request, self.agent, self.user = request, agent, request.user
        self.rater = rating_queue.rater_of(self.user.get_username())
        self.key = f"{self.session_key}:{agent.pk}"
        self.position = QueuePosition.load(request.session.get(self.key))
        self.selection = Selection.read(request.GET)
        self.position.choose(self.selection)
        self.wants_json = request.get_preferred_type(["text/html", "application/json"]) == "application/json"

    def respond(self) -> HttpResponse:
        if self.request.method != "POST":
            return self._answer(self._next(self.request.GET.get("showing", "")))
        actions = {"rate": self._rate, "skip": self._skip, "undo": self._undo}
        try:
            undone = actions[self._action()]()
        except RatchetError as error:
            return self._refuse(str(error))
        self.request.session[self.key] = self.position.as_dict()
        if not self.wants_json:
            return redirect(self._address())
        return self._answer(undone or self._next(self.request.POST.get("showing", "")))

    def _action(self) -> str:
        action = self.request.POST.get("action", "rate")
        if action not in ("rate", "skip", "undo"):
            raise UsageError(unknown_name("action", action, ("rate", "skip", "undo")))
        return action

    def _rate(self) -> None:
        trace = posted_trace(self.agent, self.request.POST)
        rated = rate_as_posted(trace, self.request.POST, rater=self.rater, source=SOURCE, user=self.user)
        self.position.note_rating(trace, rated.event)

    def _skip(self) -> None:
        self.position.skip(posted_trace(self.agent, self.request.POST))

    def _undo(self) -> Trace:
        """The answer that is unrated again."""
        number = self.request.POST.get("event", "")
        events = [
            event for event in rating_queue.last_decisions(self.rater, self.position) if number in ("", str(event.pk))
        ]
        if not events:
            raise UsageError("there is nothing to undo")
        retract(events[0], rater=self.rater, source=SOURCE, user=self.user)
        self.position.note_undo(events[0].trace, events[0])
        return events[0].trace

    def _next(self, showing: str) -> Trace | None:
        try:
            seen = uuid.UUID(showing) if showing else None
        except ValueError:
            seen = None  # an address typed by hand: show the queue's own choice
        return rating_queue.next_trace(self.queue(), self.position, seen)

    def queue(self) -> QuerySet[Trace]:
        """What is still to do, oldest first."""
        return rating_queue.unrated_traces(self.agent, self.rater).filter(self.selection.condition())

    def _answer(self, trace: Trace | None) -> HttpResponse:
        context: dict[str, Any] = {
            "item": _item(trace) if trace else None,
            "progress": rating_queue.progress(self.agent, self.rater, self.position, self.selection),
            "decisions": self.decisions(),
        }
        about = {"page": self.page, "agent": self.agent, "tags": tags_of(trace)}
        if self.wants_json:
            return JsonResponse(context)
        filters = {"filters": self.selection.form(self.agent, trace), "is_filtered": bool(self.selection.values)}
        return render(self.request, "rl/rate.html", {**context, **about, **filters})

    def _address(self) -> str:
        return reverse(self.address, args=[self.agent.name]) + self.selection.query

    def decisions(self) -> list[dict[str, Any]]:
        return [_decision(event) for event in rating_queue.last_decisions(self.rater, self.position)]

    def _refuse(self, problem: str) -> HttpResponse:
        if self.wants_json:
            return JsonResponse({"error": problem}, status=400)
        context = {"back": self._address(), "problem": problem}
        return render(self.request, "rl/rate_problem.html", context, status=400)


def _item(trace: Trace) -> dict[str, Any]:
    """Nothing in it tells which model gave the answer."""
    question_at = next((n for n in reversed(range(len(trace.prompt))) if trace.prompt[n]["role"] == "user"), None)
    return {
        "trace": str(trace.pk),
        "question": trace.question,
        "before": [
            {"role": message["role"], "content": message["content"]}
            for n, message in enumerate(trace.prompt)
            if n != question_at
        ],
        "answer": trace.response,
        "drawing": drawing_of(trace),
        "tags": tags_of(trace),
    }


def _decision(event: Feedback) -> dict[str, Any]:
    return {"event": event.pk, "good": event.value == 1, "question": event.trace.question[:200]}
