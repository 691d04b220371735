"""What agents did: the list, one trace, and the labels that people give it there."""

from __future__ import annotations

import time
import uuid
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import nullcontext
from statistics import fmean
from typing import Any

from django.contrib.auth.decorators import permission_required
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils.http import urlencode

from rl.base.errors import RatchetError, UsageError
from rl.collect.feedback.write import correct, current_rating, retract
from rl.collect.traces import records as trace_records
from rl.collect.traces.rows import run_id
from rl.dataset_builder import get_training_stats
from rl.models import Agent, Feedback, Trace
from rl.serving.gateway import pending
from rl.web import trace_lists
from rl.web.drawings import tags_of
from rl.web.pages.guards import for_users, for_users_who_post
from rl.web.pages.rating_form import rate_as_posted
from rl.web.query_time import limited_time
from rl.web.raters import rater_of, signed_in
from rl.web.trace_page import trace_context
from rl.web.trace_search import NEWEST, TraceSearch

SOURCE = "trace_page"
AGENTS = 200


@for_users
@permission_required("rl.view_trace", raise_exception=True)
def trace_list(request: HttpRequest) -> HttpResponse:
    find = request.GET.get("find", "").strip()
    if find and (trace := trace_lists.find_trace(find)):
        return redirect("trace", pk=trace.pk)
    agent, problem, search = _agent(request), "", trace_lists.EVERYTHING
    label, after = request.GET.get("label", ""), request.GET.get("after", "")
    try:
        search = TraceSearch.of_form(request.GET)
        with limited_time("the search") if search != trace_lists.EVERYTHING else nullcontext():
            shown = trace_lists.newest(agent, label, after, search)
    except UsageError as error:
        problem = f"{error}. These are the traces without that."
        shown = trace_lists.newest(agent, label, after)
    ratings = trace_lists.ratings_of(shown.traces)
    context: dict[str, Any] = {
        "page": "traces",
        "agents": Agent.objects.only("name")[:AGENTS],
        "agent": agent,
        "unknown": "" if agent else request.GET.get("agent", ""),
        "labels": trace_lists.LABELS if agent else {k: v for k, v in trace_lists.LABELS.items() if k != "unlabelled"},
        "label": label if label in trace_lists.LABELS else "",
        "search": search,
        "newest": f"{NEWEST:,}",
        "problem": problem,
        "query": _query(request, after=""),
        "older": _query(request, after=shown.older),
        "shown": shown,
        "rows": [(trace, ratings.get(trace.pk)) for trace in shown.traces],
        "may_change": request.user.has_perm("rl.change_trace"),
    }
    return render(request, "rl/traces.html", context)


@for_users
@permission_required("rl.view_trace", raise_exception=True)
def trace_statistics(request: HttpRequest, name: str) -> HttpResponse:
    agent = get_object_or_404(Agent, name=name)
    return render(request, "rl/trace_statistics.html", {"page": "traces", "agent": agent, **statistics(agent)})


@for_users_who_post
@permission_required("rl.view_trace", raise_exception=True)
def one_trace(request: HttpRequest, pk: uuid.UUID) -> HttpResponse:
    rows = Trace.objects.select_related("agent", "model_version", "label_proposal", "episode")
    try:
        trace = get_object_or_404(rows, pk=pk)
    except Http404:
        pending.deliver_named([str(pk)])  # of the gateway, a moment ago
        trace = get_object_or_404(rows, pk=run_id(pk))
    if request.method != "POST":
        context: dict[str, Any] = {
            "page": "traces",
            "tags": tags_of(trace),
            "may_rate": request.user.has_perm("rl.add_feedback"),
            "rater": rater_of(request.user.get_username()),
            "mine": current_rating(trace, rater_of(request.user.get_username())),
        }
        return render(request, "rl/trace.html", {**context, **trace_context(trace, "whole" in request.GET)})
    if not request.user.has_perm("rl.add_feedback"):
        raise PermissionDenied("You may look at traces, but nobody has given you the permission to rate answers.")
    try:
        _record_opinion(request, trace)
    except RatchetError as error:
        context = {"page": "traces", "back": reverse("trace", args=[pk]), "problem": str(error)}
        return render(request, "rl/rate_problem.html", context, status=400)
    return redirect("trace", pk=pk)


def _query(request: HttpRequest, after: str) -> str:
    """The address of the same list from another place on."""
    values: dict[str, Any] = {name: text for name, text in request.GET.items() if text and name != "after"}
    return urlencode({**values, "after": after} if after else values)


def _agent(request: HttpRequest) -> Agent | None:
    name = request.GET.get("agent", "")
    return Agent.objects.filter(name__iexact=name).first() if name else None


def _record_opinion(request: HttpRequest, trace: Trace) -> None:
    """A label, an edited answer, or the withdrawal of one's own. Raises UsageError."""
    user = signed_in(request)
    by: dict[str, Any] = {"rater": rater_of(user.get_username()), "source": SOURCE, "user": user}
    action = request.POST.get("action", "rate")
    if action == "correct":
        text = _with_newlines(request.POST.get("text", ""))
        same = text == _with_newlines(trace.response)
        correct(trace, text=trace.response if same else text, **by)
    elif action == "retract":
        event = _own(request, trace, by["rater"])
        if event is None or not retract(event, **by):
            raise UsageError("there is nothing of yours to take back")
    else:
        rate_as_posted(trace, request.POST, **by)


def _own(request: HttpRequest, trace: Trace, rater: str) -> Feedback | None:
    """The edited answer that the form names, else the label."""
    number = request.POST.get("event", "")
    if not number:
        return current_rating(trace, rater)
    edited = trace.feedback.filter(kind=Feedback.Kind.CORRECTION, rater=rater, is_current=True)
    return next((event for event in edited if str(event.pk) == number), None)


def _with_newlines(text: str) -> str:
    """Browsers send lines with CR LF, whatever ended them in the page."""
    return text.replace("\r\n", "\n").replace("\r", "\n")


SAMPLE = 1000
"""Newest traces that are read for what only their JSON columns know."""
AT_ONCE, SECONDS = 10, 0.5
"""Traces read between two looks at the clock, and when it is enough: tool calls may be megabytes."""


def statistics(agent: Agent) -> dict[str, Any]:
    """Counts over all of the agent's traces; rewards and tools over the newest of them."""
    rewards: defaultdict[str, list[float]] = defaultdict(list)
    calls: Counter[str] = Counter()
    failed: Counter[str] = Counter()
    read = 0
    for rewards_of_trace, tool_calls in _newest(agent):
        read += 1
        for name, reward in rewards_of_trace.items() if isinstance(rewards_of_trace, dict) else ():
            if isinstance(reward, dict) and isinstance(reward.get("value"), (int, float)):
                rewards[name].append(reward["value"])
        for call in trace_records.tool_calls(tool_calls):
            calls[call.tool_name] += 1
            failed[call.tool_name] += not call.success
    return {
        "figures": _figures(get_training_stats(agent.name)),
        "sample": read,
        "rewards": [
            {"name": name, "count": len(values), "percent": round(fmean(values) * 100)}
            for name, values in sorted(rewards.items())
        ],
        "tools": [
            {"name": name, "count": count, "percent": round(100 * (count - failed[name]) / count)}
            for name, count in calls.most_common(50)
        ],
    }


def _newest(agent: Agent) -> Iterator[tuple[Any, Any]]:
    """Rewards and tool calls of SAMPLE traces, or of as many as can be read in SECONDS."""
    rows = agent.traces.order_by("-created_at", "id").values_list("rewards", "tool_calls")
    until = time.monotonic() + SECONDS
    for start in range(0, SAMPLE, AT_ONCE):
        some = list(rows[start : start + AT_ONCE])
        yield from some
        if len(some) < AT_ONCE or time.monotonic() > until:
            return


def _figures(counts: dict[str, Any]) -> list[tuple[str, str]]:
    """Names and numbers for people's eyes."""
    plain = {name: value for name, value in counts.items() if isinstance(value, (int, float, str)) and value != ""}
    return [
        (name.replace("_", " "), f"{value:,}" if isinstance(value, int) else str(value))
        for name, value in plain.items()
    ]
