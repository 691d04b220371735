"""A new run: what to choose, what that would do and cost, and the button that queues it."""

from collections.abc import Mapping

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext, gettext_lazy

from rl import registered
from rl.base.errors import RatchetError
from rl.config import PRESETS
from rl.models import Agent, TrainingRun
from rl.runs.effort import EFFORTS
from rl.runs.preview import preview
from rl.web.pages.guards import for_users, for_users_who_post
from rl.web.pages.runs import check_permission
from rl.web.run_lists import with_ratings
from rl.web.run_wishes import METHOD_WORDS, RunWish, read_wish

AGENTS = 200
EFFORT_WORDS = (
    gettext_lazy("about a minute, and less sure"),
    gettext_lazy("some minutes, the usual"),
    gettext_lazy("longer, and the verdict surer"),
)
FIELDS = ("method", "base_model", "preset", "effort")
"""Beside the agent."""


@for_users_who_post
def new_run(request: HttpRequest) -> HttpResponse:
    check_permission(request, "add")
    if request.method != "POST":
        return _show(request, request.GET)
    try:
        run = _read_wish(request.POST).start()
    except RatchetError as error:
        return _show(request, request.POST, gettext("No run was queued: {problem}.").format(problem=error))
    return redirect("run", pk=run.pk)


@for_users
def plan(request: HttpRequest) -> JsonResponse:
    """What the run would do; the query has FIELDS, as the form. Reads the agent's ratings."""
    check_permission(request, "add")
    try:
        wish = _read_wish(request.GET)
        planned = wish.plan().plan
    except RatchetError as error:
        return JsonResponse({"error": str(error)}, status=400)
    cost, active = planned.estimate, _active_run(wish.agent)
    document = {
        "rows": planned.survey.train_rows,
        "minutes": round(cost.seconds / 60, 1) if cost else None,
        "memory_gib": round(cost.peak_memory_bytes / 2**30, 1) if cost else None,
        "tables": [
            {"title": title, "rows": [(name.strip(), str(value)) for name, value in rows.items()]}
            for title, rows in planned.tables.items()
        ],
        "active": reverse("run", args=[active.pk]) if active else "",
        "shown": f"{reverse('run_plan_rows')}?{request.GET.urlencode()}",
    }
    return JsonResponse(document)


@for_users
def planned_rows(request: HttpRequest) -> HttpResponse:
    """The first rows of the run that ``plan`` tells of, as the model would see them; the query is the same."""
    check_permission(request, "add")
    try:
        wish = _read_wish(request.GET)
        shown = preview(wish.agent, wish.config, wish.options, wish.method)
    except RatchetError as error:
        return _show(request, request.GET, gettext("The rows cannot be shown: {problem}.").format(problem=error))
    context = {
        "page": "runs",
        "agent": wish.agent,
        "wish": request.GET.urlencode(),
        "shown": shown,
        "rows": with_ratings(shown.rows),
        "left_out": shown.left_out,
    }
    return render(request, "rl/run_plan_rows.html", context)


def _read_wish(form: Mapping[str, str]) -> RunWish:
    """Raises UsageError."""
    return read_wish(Agent.by_name(form.get("agent", "")), **{name: form.get(name, "") for name in FIELDS})


def _active_run(agent: Agent) -> TrainingRun | None:
    return agent.runs.filter(state__in=TrainingRun.ACTIVE).first()


def _show(request: HttpRequest, form: Mapping[str, str], problem: str = "") -> HttpResponse:
    agents = list(Agent.objects.only("name", "base_model", "preset")[:AGENTS])
    agent = next((row for row in agents if row.name == form.get("agent", "")), agents[0] if agents else None)
    context = {
        "page": "runs",
        "agents": agents,
        "agent": agent,
        "methods": METHOD_WORDS,
        "base_models": list(registered.choices_of("base_model")),
        "presets": list(PRESETS),
        "efforts": dict(zip(EFFORTS, EFFORT_WORDS, strict=True)),
        "chosen": {name: form.get(name, "") for name in FIELDS},
        "active": _active_run(agent) if agent else None,
        "problem": problem,
    }
    return render(request, "rl/run_new.html", context, status=400 if problem else 200)
