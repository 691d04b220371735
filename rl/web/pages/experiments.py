"""Experiments: the list, one of them with its intervals, and what a person decides there."""

from __future__ import annotations

from typing import Any

from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse

from rl.base.errors import RatchetError, UsageError
from rl.base.names import unknown_name
from rl.models import Experiment
from rl.serving.experiments import lifecycle
from rl.serving.experiments.looks import look
from rl.serving.experiments.report import answer, document, history
from rl.serving.experiments.wording import difference_text
from rl.web.pages.guards import for_users, for_users_who_post, require_staff

REFUSAL = "Experiments are for staff with the permission to see or to change them."
SHOWN = 200


@for_users
def experiment_list(request: HttpRequest) -> HttpResponse:
    require_staff(request, "rl.view_experiment", REFUSAL)
    rows = _rows().prefetch_related("arms__version")[:SHOWN]
    entries = [{"row": row, "answer": answer(row), "arms": " / ".join(_names(row))} for row in rows]
    return render(request, "rl/experiments.html", {"page": "experiments", "experiments": entries, "shown": SHOWN})


@for_users_who_post
def one_experiment(request: HttpRequest, pk: int) -> HttpResponse:
    require_staff(request, "rl.view_experiment", REFUSAL)
    experiment = get_object_or_404(_rows(), pk=pk)
    if request.method != "POST":
        return render(request, "rl/experiment.html", _context(request, experiment))
    require_staff(request, "rl.change_experiment", REFUSAL)
    try:
        _act(request, experiment)
    except RatchetError as error:
        context = {"page": "experiments", "back": reverse("experiment", args=[pk]), "problem": str(error)}
        return render(request, "rl/rate_problem.html", context, status=400)
    return redirect("experiment", pk=pk)


@for_users
def look_json(request: HttpRequest, pk: int) -> JsonResponse:
    """What the page asks for while the experiment runs."""
    require_staff(request, "rl.view_experiment", REFUSAL)
    current = look(get_object_or_404(_rows(), pk=pk), with_history=True)
    return JsonResponse({**document(current), "history": history(current)})


def _rows() -> QuerySet[Experiment]:
    return Experiment.objects.select_related("agent")


def _names(experiment: Experiment) -> list[str]:
    return [f"{arm.name} (control)" if arm.is_control else arm.name for arm in experiment.arms.all()]


def _context(request: HttpRequest, experiment: Experiment) -> dict[str, Any]:
    report = document(look(experiment))
    return {
        "page": "experiments",
        "experiment": experiment,
        "look": report,
        "percent": round(report["progress"] * 100),
        "challengers": [arm for arm in report["arms"] if not arm["is_control"]],
        "effect": difference_text(experiment.metric, experiment.minimum_effect, signed=False),
        "confidence": f"{experiment.confidence * 100:g} %",
        "unserved": lifecycle.find_unserved(experiment) if experiment.state != experiment.State.STOPPED else [],
        "unjudged": lifecycle.find_unjudged(experiment) if experiment.state != experiment.State.STOPPED else "",
        "may_change": request.user.has_perm("rl.change_experiment"),
    }


def _act(request: HttpRequest, experiment: Experiment) -> None:
    """Raises UsageError for an action or an arm that does not exist, and what the action raises."""
    action, by = request.POST.get("action", ""), request.user.get_username()
    if action == "start":
        lifecycle.start(experiment)
    elif action == "stop":
        lifecycle.stop(experiment, by)
    elif action == "promote":
        number = request.POST.get("arm", "")
        arm = experiment.arms.select_related("version").filter(pk=number).first() if number.isdecimal() else None
        if arm is None:
            raise UsageError("the experiment has no such arm")
        lifecycle.conclude(experiment, arm, by)
    else:
        raise UsageError(unknown_name("action", action, ("start", "stop", "promote")))
