"""Staff makes and changes a queue, and invites people to it."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib.auth.decorators import permission_required
from django.db.models import QuerySet
from django.db.models.functions import Left
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse

from rl.base.errors import RatchetError, UsageError
from rl.base.names import require_known
from rl.models import Agent, GoldItem, Invite, QuestionStart, RatingQueue
from rl.queues import invites
from rl.queues.builtin import queue_of
from rl.queues.editing import close_queue, save_queue
from rl.queues.gold import remove_gold
from rl.web.pages.guards import for_users_who_post
from rl.web.raters import rater_of

GOLD = 200
"""Gold items on the page."""
SHOWN = 121
"""Characters of an answer that the page needs."""
NEW = "+"
"""In the place of a queue's name: one that is not there yet."""


@for_users_who_post
@permission_required("rl.change_ratingqueue", raise_exception=True)
def edit_queue(request: HttpRequest, name: str, queue: str) -> HttpResponse:
    agent = get_object_or_404(Agent, name=name)
    row = RatingQueue(agent=agent) if queue == NEW else queue_of(agent, queue)
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
        "days": invites.DAYS,
        "invites": _invites(request, row) if row.pk else [],
        "gold": _gold(row) if row.pk else [],
    }
    return render(request, "rl/queue_settings.html", context, status=400 if posted is not None else 200)


def _gold(queue: RatingQueue) -> QuerySet[GoldItem]:
    """With the beginnings of the texts."""
    answers = {"answer": Left("trace__response", SHOWN), "other_answer": Left("other_trace__response", SHOWN)}
    rows = queue.gold.annotate(question=QuestionStart("trace__prompt"), **answers)
    return rows.order_by("-pk")[:GOLD]


def _act(request: HttpRequest, queue: RatingQueue, form: QueueForm) -> bool:
    """False where the form says what is wrong. Raises UsageError."""
    action = request.POST.get("action", "save")
    require_known("action", action, ("save", "invite", "revoke", "remove_gold"))
    if action == "invite":
        days = request.POST.get("days", "")
        if not (days.isascii() and days.isdecimal() and len(days) < 6):
            raise UsageError("days: a whole number is wanted")
        invites.invite(queue, request.POST.get("guest", ""), int(days), rater_of(request.user.get_username()))
    elif action == "revoke":
        invites.revoke(_own_invite(queue, request.POST.get("invite", "")))
    elif action == "remove_gold":
        remove_gold(queue, request.POST.get("gold", ""))
    else:
        return _save(request, queue, form)
    return True


def _save(request: HttpRequest, queue: RatingQueue, form: QueueForm) -> bool:
    if not form.is_valid():
        return False
    queue.created_by = queue.created_by or rater_of(request.user.get_username())
    save_queue(queue)
    if form.cleaned_data["closed"] != (queue.closed_at is not None):
        close_queue(queue, closed=form.cleaned_data["closed"])
    return True


def _own_invite(queue: RatingQueue, number: str) -> Invite:
    invite = next((row for row in queue.invites.all() if str(row.pk) == number), None)
    if invite is None:
        raise UsageError(f"this queue has no invitation {number[:20]!r}; open the page again")
    invite.queue = queue
    return invite


def _invites(request: HttpRequest, queue: RatingQueue) -> list[dict[str, Any]]:
    return [
        {
            "invite": invite,
            "over": invites.why_refused(invite),
            "link": request.build_absolute_uri(reverse("rate_by_invite", args=[invites.token_of(invite)])),
        }
        for invite in queue.invites.select_related("queue")
    ]


class QueueForm(forms.ModelForm):
    tags = forms.CharField(required=False, help_text="Of its own, with commas between.")
    closed = forms.BooleanField(required=False, help_text="Hands out nothing more.")

    class Meta:
        model = RatingQueue
        fields = [
            "name",
            "instructions",
            "rubric",
            "order",
            "raters_per_item",
            "filters",
            "tags",
            "lock_seconds",
            "gold_share",
            "repeat_share",
        ]
        widgets = {"instructions": forms.Textarea({"rows": 3}), "filters": forms.Textarea({"rows": 4})}

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.initial["tags"] = ", ".join(self.instance.tags)
        self.initial["closed"] = self.instance.closed_at is not None
        self.fields["filters"].required = False

    def clean_tags(self) -> list[str]:
        return list(dict.fromkeys(tag.strip() for tag in self.cleaned_data["tags"].split(",") if tag.strip()))

    def clean_filters(self) -> Any:
        return self.cleaned_data["filters"] or {}
