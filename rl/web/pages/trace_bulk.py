"""What is done with the traces that were picked in the list: all of them or none."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from django.contrib.auth.decorators import login_required, permission_required
from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST
from rest_framework.renderers import JSONRenderer

from rl.base.errors import UsageError
from rl.base.names import unknown_name
from rl.models import Trace
from rl.models.traces import HELD_OUT, NEVER, SPLIT
from rl.web.api.serializers.traces import TraceWithFeedback
from rl.web.trace_lists import PAGE

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
            return _export(keys)
        if not request.user.has_perm("rl.change_trace"):
            raise PermissionDenied("Nobody has given you the permission to change traces.")
        set_use(keys, may_train=action == "allow")
    except UsageError as error:
        context = {"page": "traces", "back": back, "problem": str(error)}
        return render(request, "rl/rate_problem.html", context, status=400)
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
    if action not in ACTIONS:
        raise UsageError(unknown_name("action", action, ACTIONS))
    if not texts:
        raise UsageError("no trace is picked: tick at least one in the list")
    if len(texts) > PAGE:
        raise UsageError(f"{len(texts)} traces are picked; {PAGE} is the most at once")
    try:
        return action, [UUID(text) for text in texts]
    except ValueError:
        raise UsageError("one of the picked traces has an id that is not one; open the list again") from None


def _export(keys: Sequence[UUID]) -> HttpResponse:
    """A line for each, as the API gives it, with all of its feedback; newest first."""
    rows = (
        Trace.objects.filter(pk__in=keys).select_related("agent", "model_version").prefetch_related("feedback__agent")
    )
    renderer = JSONRenderer()
    lines = b"".join(renderer.render(TraceWithFeedback(trace).data) + b"\n" for trace in rows)
    answer = HttpResponse(lines, content_type="application/x-ndjson")
    answer["Content-Disposition"] = 'attachment; filename="traces.jsonl"'
    return answer
