"""What staff does with queues: makes and changes one, invites people to it, sees how far its raters agree, decides on
feedback that is held back, and compares versions by people's picks."""

from __future__ import annotations

from typing import Any
from urllib.parse import urljoin, urlsplit

from django.conf import settings
from django.contrib.auth.decorators import permission_required
from django.db.models.functions import Left, Lower
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils.translation import gettext_noop

from rl.base.errors import RatchetError, UsageError
from rl.base.names import require_known
from rl.models import Agent, Quarantine, QuestionStart, RatingQueue
from rl.queues import editing
from rl.trust import quarantine, reading
from rl.web.pages.guards import for_users, for_users_who_post, rater_of, require_staff, show_problem
from rl.web.queue_form import QueueForm

GOLD = 200
"""Gold items on the page."""
SHOWN = 121
"""Characters of an answer that the page needs."""
THIS_MACHINE = ("127.0.0.1", "localhost", "::1")
NEW = "+"
"""In the place of a queue's name: one that is not there yet."""


@for_users_who_post
@permission_required("rl.change_ratingqueue", raise_exception=True)
def edit_queue(request: HttpRequest, name: str, queue: str) -> HttpResponse:
    agent = get_object_or_404(Agent, name=name)
    row = RatingQueue(agent=agent) if queue == NEW else editing.queue_of(agent, queue)
    if row is None:
        raise Http404(f"agent {name} has no queue {queue}")
    posted = request.POST if request.method == "POST" else None
    form = QueueForm(posted if posted and posted.get("action", "save") == "save" else None, instance=row)
    problem = ""
    if posted is not None:
        try:
            if _act(request, row, form):
                return redirect("queue_settings", name=agent.name, queue=row.name)
        except RatchetError as error:
            problem = str(error)
    context: dict[str, Any] = {
        "page": "rate",
        "agent": agent,
        "queue": row if row.pk else None,
        "form": form,
        "problem": problem,
        "days": editing.DAYS,
    }
    if row.pk:  # gold items have the beginnings of their texts
        answers = {"answer": Left("trace__response", SHOWN), "other_answer": Left("other_trace__response", SHOWN)}
        rows = row.gold.annotate(question=QuestionStart("trace__prompt"), **answers)
        context["gold"] = rows.order_by("-pk")[:GOLD]
        site = _public_address(request)
        context["is_local"] = urlsplit(site).hostname in THIS_MACHINE
        context["invites"] = [
            {
                "invite": invite,
                "over": editing.why_refused(invite),
                "link": urljoin(site, reverse("rate_by_invite", args=[editing.token_of(invite)])),
            }
            for invite in row.invites.select_related("queue").order_by("-pk")
        ]
    return render(request, "rl/queue_settings.html", context, status=400 if posted is not None else 200)


def _public_address(request: HttpRequest) -> str:
    """SITE_URL; where that is this machine's own, what the person typed, which others may reach too."""
    is_local = urlsplit(settings.SITE_URL).hostname in THIS_MACHINE
    return f"{request.scheme}://{request.get_host()}" if is_local else settings.SITE_URL


def _act(request: HttpRequest, queue: RatingQueue, form: QueueForm) -> bool:
    """False where the form says what is wrong. Raises UsageError."""
    action = request.POST.get("action", "save")
    require_known("action", action, ("save", "invite", "revoke", "remove_gold"))
    if action == "invite":
        days = request.POST.get("days", "")
        if not (days.isascii() and days.isdecimal() and len(days) < 6):
            raise UsageError("days: a whole number is wanted")
        editing.invite(queue, request.POST.get("guest", ""), int(days), rater_of(request.user.get_username()))
    elif action == "revoke":
        number = request.POST.get("invite", "")
        invite = next((row for row in queue.invites.all() if str(row.pk) == number), None)
        if invite is None:
            raise UsageError(f"this queue has no invitation {number[:20]!r}; open the page again")
        invite.queue = queue
        editing.revoke(invite)
    elif action == "remove_gold":
        editing.remove_gold(queue, request.POST.get("gold", ""))
    elif not form.is_valid():
        return False
    else:
        queue.created_by = queue.created_by or rater_of(request.user.get_username())
        editing.save_queue(queue)
        if form.cleaned_data["closed"] != (queue.closed_at is not None):
            editing.close_queue(queue, closed=form.cleaned_data["closed"])
    return True


@for_users
def queue_raters(request: HttpRequest, name: str, queue: str) -> HttpResponse:
    require_staff(
        request, "rl.view_feedback", gettext_noop("Raters are seen by staff with the permission to see feedback.")
    )
    rows = RatingQueue.objects.select_related("agent").annotate(lower=Lower("name"))
    row = get_object_or_404(rows, agent__name__iexact=name, lower=queue.lower())
    return render(request, "rl/queue_raters.html", {"page": "rate", "queue": row, "report": reading.report(row)})


@for_users_who_post
def held_back(request: HttpRequest) -> HttpResponse:
    require_staff(
        request, "rl.view_quarantine", gettext_noop("Feedback that is held back is seen by staff with the permission.")
    )
    if request.method != "POST":
        rows = [{"row": row, "held": held, "kept_by": by} for row, held, by in quarantine.list_held()]
        may_change = request.user.has_perm("rl.change_quarantine")
        return render(request, "rl/held_back.html", {"page": "rate", "rows": rows, "may_change": may_change})
    require_staff(
        request, "rl.change_quarantine", gettext_noop("To release feedback takes the permission to change quarantines.")
    )
    number, decisions = request.POST.get("quarantine", ""), {"release": quarantine.release, "keep": quarantine.keep}
    known = Quarantine.objects.select_related("agent")
    row = known.filter(pk=number).first() if number.isascii() and number.isdecimal() and len(number) < 19 else None
    try:
        if row is None:
            raise UsageError(f"no quarantine has the number {number[:20]!r}; open the page again")
        action = request.POST.get("action", "")
        require_known("action", action, decisions)
        decisions[action](row, request.user.get_username())
    except UsageError as error:
        return show_problem(request, "rate", reverse("held_back"), error)
    return redirect("held_back")


@for_users
def version_table(request: HttpRequest, name: str) -> HttpResponse:
    refusal = gettext_noop("Versions are compared for staff with the permission to see experiments.")
    require_staff(request, "rl.view_experiment", refusal)
    agent = get_object_or_404(Agent, name__iexact=name)
    context = {"page": "experiments", "agent": agent, "standings": reading.version_table(agent)}
    return render(request, "rl/version_table.html", context)
