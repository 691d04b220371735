"""Raters: how far they agree, whose feedback is held back; and versions by people's picks."""

from __future__ import annotations

from django.db.models.functions import Lower
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse

from rl.base.errors import UsageError
from rl.base.names import require_known
from rl.models import Agent, Quarantine, RatingQueue
from rl.trust import quarantine, reading, table
from rl.web.pages.guards import for_users, for_users_who_post, require_staff


@for_users
def queue_raters(request: HttpRequest, name: str, queue: str) -> HttpResponse:
    require_staff(request, "rl.view_feedback", "Raters are seen by staff with the permission to see feedback.")
    rows = RatingQueue.objects.select_related("agent").annotate(lower=Lower("name"))
    row = get_object_or_404(rows, agent__name__iexact=name, lower=queue.lower())
    return render(request, "rl/queue_raters.html", {"page": "rate", "queue": row, "report": reading.report(row)})


@for_users_who_post
def held_back(request: HttpRequest) -> HttpResponse:
    require_staff(request, "rl.view_quarantine", "Feedback that is held back is seen by staff with the permission.")
    if request.method != "POST":
        rows = [{"row": row, "held": held, "kept_by": by} for row, held, by in quarantine.list_held()]
        may_change = request.user.has_perm("rl.change_quarantine")
        return render(request, "rl/held_back.html", {"page": "rate", "rows": rows, "may_change": may_change})
    require_staff(request, "rl.change_quarantine", "To release feedback takes the permission to change quarantines.")
    try:
        _decide(request)
    except UsageError as error:
        context = {"page": "rate", "back": reverse("held_back"), "problem": str(error)}
        return render(request, "rl/rate_problem.html", context, status=400)
    return redirect("held_back")


@for_users
def version_table(request: HttpRequest, name: str) -> HttpResponse:
    require_staff(
        request, "rl.view_experiment", "Versions are compared for staff with the permission to see experiments."
    )
    agent = get_object_or_404(Agent, name__iexact=name)
    return render(
        request,
        "rl/version_table.html",
        {"page": "experiments", "agent": agent, "standings": table.version_table(agent)},
    )


def _decide(request: HttpRequest) -> None:
    """Raises UsageError for what cannot be done."""
    number, by = request.POST.get("quarantine", ""), request.user.get_username()
    known = Quarantine.objects.select_related("agent")
    row = known.filter(pk=number).first() if number.isascii() and number.isdecimal() and len(number) < 19 else None
    if row is None:
        raise UsageError(f"no quarantine has the number {number[:20]!r}; open the page again")
    decisions = {"release": quarantine.release, "keep": quarantine.keep}
    action = request.POST.get("action", "")
    require_known("action", action, decisions)
    decisions[action](row, by)
