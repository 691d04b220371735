"""What agents did: the list, one trace, and the labels that people give it there."""

import uuid
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any
from uuid import UUID

from django.contrib.auth.decorators import login_required, permission_required
from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.db.models import Exists, OuterRef
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils.http import urlencode
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST
from rest_framework.renderers import JSONRenderer

from rl.base.errors import RatchetError, UsageError
from rl.base.names import require_known
from rl.collect.feedback.write import correct, current_rating, retract
from rl.dataset_builder.read.follow_ups import SOURCE as HEARD
from rl.models import Agent, Feedback, FollowUpLabel, Trace
from rl.models.traces import HELD_OUT, NEVER, SPLIT
from rl.web import trace_lists
from rl.web.api.lookups import by_id
from rl.web.api.serializers.traces import TraceWithFeedback
from rl.web.pages import guards
from rl.web.rating_filters import tags_of
from rl.web.trace_page import trace_context
from rl.web.trace_statistics import ratings_of, read_statistics

SOURCE = "trace_page"
AGENTS = 200


@guards.for_users
@permission_required("rl.view_trace", raise_exception=True)
def trace_list(request: HttpRequest) -> HttpResponse:
    find = request.GET.get("find", "").strip()
    if find and (trace := trace_lists.find_trace(find)):
        return redirect("trace", pk=trace.pk)
    agent, problem, search = guards.find_agent(request.GET.get("agent", "")), "", trace_lists.EVERYTHING
    label, after = request.GET.get("label", ""), request.GET.get("after", "")
    try:
        search = trace_lists.TraceSearch.of_form(request.GET)
        with trace_lists.limited_time("the search") if search != trace_lists.EVERYTHING else nullcontext():
            shown = trace_lists.newest(agent, label, after, search)
    except UsageError as error:
        problem = f"{error}. These are the traces without that."
        shown = trace_lists.newest(agent, label, after)
    ratings = ratings_of([trace.pk for trace in shown.traces])
    context: dict[str, Any] = {
        "page": "traces",
        "agents": Agent.objects.only("name")[:AGENTS],
        "agent": agent,
        "unknown": "" if agent else request.GET.get("agent", ""),
        "labels": trace_lists.LABELS if agent else {k: v for k, v in trace_lists.LABELS.items() if k != "unlabelled"},
        "label": label if label in trace_lists.LABELS else "",
        "search": search,
        "newest": f"{trace_lists.NEWEST:,}",
        "problem": problem,
        "query": _query(request, after=""),
        "older": _query(request, after=shown.older),
        "shown": shown,
        "rows": [(trace, ratings.get(trace.pk)) for trace in shown.traces],
        "may_change": request.user.has_perm("rl.change_trace"),
    }
    return render(request, "rl/traces.html", context)


@guards.for_users
@permission_required("rl.view_trace", raise_exception=True)
def trace_statistics(request: HttpRequest, name: str) -> HttpResponse:
    agent = get_object_or_404(Agent, name=name)
    return render(request, "rl/trace_statistics.html", {"page": "traces", "agent": agent, **read_statistics(agent)})


@guards.for_users_who_post
@permission_required("rl.view_trace", raise_exception=True)
def one_trace(request: HttpRequest, pk: uuid.UUID) -> HttpResponse:
    trace = by_id(
        Trace.objects.select_related("agent", "model_version", "label_proposal", "episode", "follow_up__next_trace"), pk
    )
    if trace is None:
        raise Http404(f"there is no trace {pk}")
    if request.method != "POST":
        rater = guards.rater_of(request.user.get_username())
        context: dict[str, Any] = {
            "page": "traces",
            "tags": tags_of(trace),
            "may_rate": request.user.has_perm("rl.add_feedback"),
            "rater": rater,
            "mine": current_rating(trace, rater),
        }
        return render(request, "rl/trace.html", {**context, **trace_context(trace, "whole" in request.GET)})
    if not request.user.has_perm("rl.add_feedback"):
        raise PermissionDenied(_("You may look at traces, but nobody has given you the permission to rate answers."))
    try:
        _record_opinion(request, trace)
    except RatchetError as error:
        return guards.show_problem(request, "traces", reverse("trace", args=[pk]), error)
    return redirect("trace", pk=_next_heard(trace) or pk if request.POST.get("action") == HEARD else pk)


def _next_heard(trace: Trace) -> uuid.UUID | None:
    """The answer behind it in the list of those whose next message was read, that nobody has rated."""
    rated = Feedback.objects.filter(trace=OuterRef("trace"), kind=Feedback.Kind.RATING, is_current=True)
    waiting = FollowUpLabel.find_sure().filter(~Exists(rated), trace__agent=trace.agent_id)
    return waiting.order_by("-pk").values_list("trace_id", flat=True).first()


def _query(request: HttpRequest, after: str) -> str:
    """The address of the same list from another place on."""
    values: dict[str, Any] = {name: text for name, text in request.GET.items() if text and name != "after"}
    return urlencode({**values, "after": after} if after else values)


def _record_opinion(request: HttpRequest, trace: Trace) -> None:
    """A label, an edited answer, or the withdrawal of one's own. Raises UsageError."""
    by, action = guards.said_by(guards.signed_in(request), SOURCE), request.POST.get("action", "rate")
    if action == "correct":
        text = _with_newlines(request.POST.get("text", ""))
        same = text == _with_newlines(trace.response)
        correct(trace, text=trace.response if same else text, **by)
    elif action == "retract":
        event = _own(request, trace, by["rater"])
        if event is None or not retract(event, **by):
            raise UsageError(_("there is nothing of yours to take back"))
    elif action == HEARD:
        guards.rate_as_posted(trace, request.POST, **{**by, "source": HEARD})
    else:
        guards.rate_as_posted(trace, request.POST, **by)


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


ACTIONS = ("export", "never", "allow")


@require_POST
@never_cache
@login_required
@permission_required("rl.view_trace", raise_exception=True)
def act_on_picked(request: HttpRequest) -> HttpResponse:
    """``trace``: ids, a page of the list at most. ``query``: of the list that they were picked in."""
    back = f"{reverse('traces')}?{request.POST.get('query', '')}"
    try:
        action, keys = _read(request)
        if action == "export":
            # a line for each, as the API gives it, with all of its feedback; newest first
            rows = (
                Trace.objects.filter(pk__in=keys)
                .select_related("agent", "model_version")
                .prefetch_related("feedback__agent")
            )
            renderer = JSONRenderer()
            lines = b"".join(renderer.render(TraceWithFeedback(trace).data) + b"\n" for trace in rows)
            answer = HttpResponse(lines, content_type="application/x-ndjson")
            answer["Content-Disposition"] = 'attachment; filename="traces.jsonl"'
            return answer
        if not request.user.has_perm("rl.change_trace"):
            raise PermissionDenied(_("Nobody has given you the permission to change traces."))
        set_use(keys, may_train=action == "allow")
    except UsageError as error:
        return guards.show_problem(request, "traces", back, error)
    return redirect(back)


def set_use(keys: Sequence[UUID], *, may_train: bool) -> int:
    """Whether later training sets may have rows of these traces; how many changed. Those that are held out for testing are
    trained on in no case, and stay as they are. Sets that are frozen keep their rows."""
    changed = []
    with transaction.atomic():
        for trace in Trace.objects.select_for_update(of=("self",)).filter(pk__in=keys).order_by("pk"):
            if trace.details.get(SPLIT) == HELD_OUT or (trace.details.get(SPLIT) == NEVER) != may_train:
                continue
            rest = {name: value for name, value in trace.details.items() if name != SPLIT}
            trace.details = rest if may_train else {**rest, SPLIT: NEVER}
            changed.append(trace)
        Trace.objects.bulk_update(changed, ["details"])
    return len(changed)


def _read(request: HttpRequest) -> tuple[str, list[UUID]]:
    """Raises UsageError."""
    action, texts = request.POST.get("action", ""), request.POST.getlist("trace")
    require_known("action", action, ACTIONS)
    if not texts:
        raise UsageError(_("no trace is picked: tick at least one in the list"))
    if len(texts) > trace_lists.PAGE:
        raise UsageError(f"{len(texts)} traces are picked; {trace_lists.PAGE} is the most at once")
    try:
        return action, [UUID(text) for text in texts]
    except ValueError:
        raise UsageError("one of the picked traces has an id that is not one; open the list again") from None
