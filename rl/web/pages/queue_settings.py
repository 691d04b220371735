"""What staff does with queues: makes and changes one, invites people to it, sees how far its raters agree, decides on
feedback that is held back, and compares versions by people's picks."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from typing import Any, Final
from urllib.parse import urljoin, urlsplit

from django import forms
from django.conf import settings
from django.contrib.auth.decorators import permission_required
from django.db.models.functions import Left, Lower
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils.translation import gettext_lazy as _
from django.utils.translation import gettext_noop

from rl.base.errors import RatchetError, UsageError
from rl.base.names import require_known
from rl.models import Agent, Quarantine, QuestionStart, RatingQueue
from rl.queues import editing
from rl.queues.filters import LONGEST
from rl.trust import quarantine, reading
from rl.web.pages.guards import for_users, for_users_who_post, rater_of, require_staff, show_problem

_LISTS: Final = ("versions", "with_tags", "sources")
"""Fields of several texts, with commas between."""
_FILTERS: Final = {
    **{name: name for name in ("rated", "versions", "search", "sources", "details")},
    "since": "from",
    "until": "to",
    "with_tags": "tags",
}
"""Field to the filter's name in the queue."""
_SHARES: Final = ("gold_share", "repeat_share")
GROUPS: Final = (
    (_("What people are asked"), ("name", "instructions", "rubric", "tags")),
    (_("Which answers"), ("rated", "search", "versions", "since", "until", "order", "with_tags", "sources", "details")),
    (_("Who answers, and how well"), ("raters_per_item", "lock_seconds", "gold_share", "repeat_share", "closed")),
)


class _Details(forms.JSONField):
    def prepare_value(self, value: Any) -> Any:
        """Nothing is an empty field, and not ``null``."""
        return "" if value is None else super().prepare_value(value)


def _percent(label: Any, help_text: Any) -> forms.FloatField:
    return forms.FloatField(label=label, help_text=help_text, min_value=0, max_value=50)


def _texts(label: Any, help_text: Any) -> forms.CharField:
    return forms.CharField(label=label, help_text=help_text, required=False)


class QueueForm(forms.ModelForm):
    tags = _texts(_("Words to choose from"), _("What may be said of an answer beside it; with commas between."))
    rated = forms.TypedChoiceField(
        label=_("Rated before"),
        required=False,
        choices=[("", _("whether or not")), ("no", _("by nobody yet")), ("yes", _("by somebody"))],
        coerce=lambda value: value == "yes",
        empty_value=None,
    )
    search = forms.CharField(label=_("With these words"), required=False, max_length=LONGEST)
    versions = _texts(_("Given by these versions"), _("With commas between; “base” is the base model. Empty: all."))
    since = forms.DateField(label=_("From day"), required=False, widget=forms.DateInput({"type": "date"}, "%Y-%m-%d"))
    until = forms.DateField(label=_("To day"), required=False, widget=forms.DateInput({"type": "date"}, "%Y-%m-%d"))
    with_tags = _texts(_("Tagged by a rater with"), _("One of these, with commas between."))
    sources = _texts(_("That came by"), _("Such as gateway or api, with commas between."))
    details = _Details(
        label=_("With these details"),
        required=False,
        widget=forms.Textarea({"rows": 2}),
        help_text=_('What your app stored with the answer, such as {"category": "energy"}.'),
    )
    gold_share = _percent(_("Test questions, in percent"), _("Items whose right answer is known; they measure raters."))
    repeat_share = _percent(_("Asked twice, in percent"), _("Items that the same person decided before."))
    closed = forms.BooleanField(label=_("Closed"), required=False, help_text=_("Hands out nothing more."))

    class Meta:
        model = RatingQueue
        fields = ["name", "instructions", "rubric", "order", "raters_per_item", "tags", "lock_seconds", *_SHARES]
        labels = {
            "name": _("Name"),
            "instructions": _("What a good answer is"),
            "rubric": _("They say"),
            "order": _("In which order"),
            "raters_per_item": _("People for each answer"),
            "lock_seconds": _("Seconds that an answer waits for one person"),
        }
        help_texts = {
            "instructions": _("Stands beside each answer; guests read it before they begin."),
            "raters_per_item": _("Empty: everybody rates every answer."),
            "lock_seconds": _("Then somebody else may get it; whoever is at work keeps it."),
        }
        widgets = {"instructions": forms.Textarea({"rows": 3})}

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        row, stored = self.instance, self.instance.filters
        self.initial.update(
            {name: stored[key] for name, key in _FILTERS.items() if key in stored}
            | {name: _join(stored.get(_FILTERS[name], [])) for name in _LISTS}
            | {name: f"{100 * getattr(row, name):g}" for name in _SHARES}
            | {"rated": {None: "", True: "yes", False: "no"}[stored.get("rated")]}
            | {"tags": _join(row.tags), "closed": row.closed_at is not None}
        )

    def groups(self) -> Iterator[tuple[Any, list[forms.BoundField]]]:
        """Title, and its fields."""
        return ((title, [self[name] for name in names]) for title, names in GROUPS)

    def clean_tags(self) -> list[str]:
        return _split(self.cleaned_data["tags"])

    def clean_gold_share(self) -> float:
        return float(self.cleaned_data["gold_share"]) / 100

    def clean_repeat_share(self) -> float:
        return float(self.cleaned_data["repeat_share"]) / 100

    def clean(self) -> dict[str, Any]:
        """Whoever stores the queue checks the filters."""
        given: dict[str, Any] = {name: self.cleaned_data.get(name) for name in _FILTERS}
        given |= {name: _split(given[name] or "") for name in _LISTS}
        given |= {name: given[name].isoformat() for name in ("since", "until") if given[name]}
        empty: tuple[Any, ...] = (None, "", [], {})
        self.instance.filters = {_FILTERS[name]: value for name, value in given.items() if value not in empty}
        return self.cleaned_data


def _split(text: str) -> list[str]:
    """Reads what stands between commas; quotation marks keep a comma within a text."""
    parts = (part.strip() for row in csv.reader([text], skipinitialspace=True) for part in row)
    return list(dict.fromkeys(part for part in parts if part))


def _join(texts: Sequence[str]) -> str:
    quoted = {text: '"' + text.replace('"', '""') + '"' for text in texts if "," in text or '"' in text}
    return ", ".join(quoted.get(text, text) for text in texts)


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
