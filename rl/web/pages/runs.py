"""Training runs: the list, and the page of one, which asks every two seconds what is new."""

import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils.http import urlencode
from django.utils.translation import gettext_lazy, gettext_noop

from rl.base.errors import RatchetError, RunConflict, UsageError
from rl.base.names import unknown_name
from rl.models import Agent, TrainingRun
from rl.runs import choosing, episode_rates, supervisor
from rl.runs.monitor import PAUSED
from rl.runs.stage_log import Stages
from rl.web import run_lists
from rl.web.compared_answers import name_raters
from rl.web.pages.guards import find_agent, for_users, for_users_who_post, require_staff, show_problem
from rl.web.tastes import describe_weights
from rl.web.version_figures import newest_evaluation, sentence

LOG_BYTES = 8192
POINTS = 5000
"""Points in one answer; a longer history takes several."""
AGENTS = 200


@for_users
def run_list(request: HttpRequest) -> HttpResponse:
    """``?agent=NAME&state=STATE&before=NUMBER``; what is wrong in them is said, and left out."""
    check_permission(request, "view")
    name, state = request.GET.get("agent", ""), request.GET.get("state", "")
    agent, before = find_agent(name), request.GET.get("before", "")
    state = state if state in TrainingRun.State.values else ""
    page = run_lists.newest(agent, state, int(before) if before.isdecimal() and len(before) < 10 else None)
    filters: dict[str, Any] = {"agent": agent.name if agent else "", "state": state}
    context = {
        "page": "runs",
        "agents": Agent.objects.only("name")[:AGENTS],
        "agent": agent,
        "unknown": "" if agent else name,
        "states": TrainingRun.State.choices,
        "state": state,
        "shown": page,
        "older": urlencode({**filters, "before": page.older}) if page.older else "",
        "may_start": request.user.has_perm("rl.add_trainingrun"),
    }
    return render(request, "rl/runs.html", context)


@for_users_who_post
def one_run(request: HttpRequest, pk: int) -> HttpResponse:
    check_permission(request, "view")
    rows = TrainingRun.objects.select_related("agent", "training_set", "version")
    run = get_object_or_404(rows, pk=pk)
    if request.method != "POST":
        return render(request, "rl/run.html", _context(request, run))
    check_permission(request, "change")
    wants_page = request.accepts("text/html")
    try:
        action = request.POST.get("action", "")
        if action == "cancel":
            supervisor.stop(run)
        elif action == "resume":
            choosing.require_origins(run)
            if not supervisor.requeue(run):
                raise RunConflict(_why_it_stays(run))
            supervisor.enqueue(run)
        else:
            raise UsageError(unknown_name("action", action, ("cancel", "resume")))
    except RatchetError as error:
        if not wants_page:
            return JsonResponse({"error": str(error)}, status=400)
        return show_problem(request, "runs", reverse("run", args=[pk]), error)
    return redirect("run", pk=pk) if wants_page else JsonResponse({"run": pk})


@for_users
def learned_rows(request: HttpRequest, pk: int) -> HttpResponse:
    """The first rows of a run as the model sees them, and some that were left out."""
    check_permission(request, "view")
    run = get_object_or_404(TrainingRun.objects.select_related("agent", "training_set"), pk=pk)
    return render(request, "rl/run_rows.html", {"page": "runs", "run": run, **run_lists.read(run)})


@for_users
def progress(request: HttpRequest, pk: int) -> JsonResponse:
    """``?after=STEP`` leaves out the points up to that step."""
    check_permission(request, "view")
    after = request.GET.get("after", "-1")
    if not after.removeprefix("-").isdecimal() or len(after) > 10:
        return JsonResponse({"error": f"after={after[:50]!r} is not a step number"}, status=400)
    run = get_object_or_404(TrainingRun.objects.select_related("version"), pk=pk)
    stages = Stages.read(run.directory)
    return JsonResponse(
        {
            "state": run.state,
            "stage": run.stage,
            "line": [step.progress for step in run_lists.stage_line(run, stages)],
            "step": run.step,
            "total_steps": run.total_steps,
            "attempt": run.attempt,
            "eta_seconds": eta_seconds(run, stages),
            "error": run.error,
            "points": list(run.metric_points.filter(step__gt=int(after)).values_list("step", "values")[:POINTS]),
            "success": episode_rates.series(run),
            "log_tail": log_tail(run.log_path),
        }
    )


def check_permission(request: HttpRequest, what: str) -> None:
    """``what``: view, add or change."""
    refusal = gettext_noop("Training runs are for staff with the permission to see, to start or to change them.")
    require_staff(request, f"rl.{what}_trainingrun", refusal)


def eta_seconds(run: TrainingRun, stages: Stages) -> int | None:
    """To the end of the present stage, by the pace of that stage alone; None while that is not known."""
    if run.state != run.State.RUNNING or run.stage == PAUSED or stages.pace is None:
        return None
    left = stages.pace.seconds_left(time.time())
    return None if left is None else round(left)


def log_tail(path: Path) -> str:
    """The last whole lines within 8 kB; "" while there is no log. Reads nothing but a plain file in its own place."""
    if path.is_symlink() or not path.is_file():
        return ""
    with path.open("rb") as file:
        start = max(0, file.seek(0, os.SEEK_END) - LOG_BYTES)
        file.seek(start)
        text = file.read(LOG_BYTES).decode(errors="replace")
    return text.partition("\n")[2] if start and "\n" in text else text


def _why_it_stays(run: TrainingRun) -> str:
    if run.state not in run.RESUMABLE:
        return f"Run {run.pk} is {run.get_state_display()}: only one that failed or was cancelled is resumed."
    other = run.agent.runs.filter(state__in=run.ACTIVE).first()
    name = f"run {other.pk}" if other else "another run"  # which may have ended since
    return f"Run {run.pk} stays as it is: {run.agent.name} has {name} in progress; wait for it, or cancel it."


def _context(request: HttpRequest, run: TrainingRun) -> dict[str, Any]:
    version = run.version
    evaluation = newest_evaluation(version) if version else None
    return {
        "page": "runs",
        "run": run,
        "line": run_lists.stage_line(run, Stages.read(run.directory)),
        "resumable": run.state in run.RESUMABLE,
        "may_change": request.user.has_perm("rl.change_trainingrun"),
        "version": version,
        "episodes": run_episodes(run),
        "evaluation": evaluation,
        "sentence": sentence(evaluation) if evaluation else None,
        "raters": name_raters(run.agent, run.training_set),
        "weights": describe_weights(run.agent, weighs_raters=bool(run.config.get("weigh_raters"))),
        "tables": [
            (title, sorted(values.items()))
            for title, values in (
                (gettext_lazy("Hyper-parameters"), run.config),
                (gettext_lazy("Options"), run.options),
                (gettext_lazy("Hardware"), run.hardware),
            )
            if values
        ],
    }


def run_episodes(run: TrainingRun) -> dict[str, Any] | None:
    """What the page of a run shows about its episodes; None where it has none. Eight queries, one where there is none."""
    rates = episode_rates.success_rates(run)
    if not rates:
        return None
    steps = sorted({rate.step for of_split in rates.values() for rate in of_split}, reverse=True)
    at = {split: {rate.step: rate for rate in of_split} for split, of_split in rates.items()}
    sparks = [
        (task, run_lists.sparkline([(rate.step, rate.value) for rate in task.over_time], max(steps[0], 1), 0, 1))
        for task in episode_rates.task_rates(run)
    ]
    return {
        "numbers": [(step, at.get("train", {}).get(step), at.get("eval", {}).get(step)) for step in steps],
        "tasks": [{"rate": task, "spark": spark} for task, spark in sparks],
        "number_of_tasks": episode_rates.number_of_tasks(run),
        "step": steps[0],
    }


MOST = 6
"""Runs on one chart."""
CHOICES = 100


@for_users
def compare(request: HttpRequest) -> HttpResponse:
    """``?run=1&run=2``; numbers of runs that are not there are said, and left out."""
    check_permission(request, "view")
    wanted = [int(text) for text in dict.fromkeys(request.GET.getlist("run")) if text.isdecimal() and len(text) < 10]
    rows = TrainingRun.objects.select_related("agent", "training_set", "version")
    known = rows.in_bulk(wanted[:MOST])
    figures = run_lists.describe([known[pk] for pk in wanted if pk in known])
    context = {
        "page": "runs",
        "figures": figures,
        "missing": [pk for pk in wanted[:MOST] if pk not in known],
        "too_many": len(wanted) > MOST,
        "most": MOST,
        "others": TrainingRun.objects.select_related("agent").exclude(pk__in=known).order_by("-pk")[:CHOICES],
        "differences": differences(figures),
    }
    return render(request, "rl/run_compare.html", context)


def differences(figures: Sequence[run_lists.RunFigures]) -> list[tuple[str, list[str]]]:
    """Name of a setting to its value in each run, where these are not all the same."""
    if len(figures) < 2:
        return []
    columns = [_settings(row) for row in figures]
    names = dict.fromkeys(name for column in columns for name in column)
    rows = [(name, [column.get(name, "–") for column in columns]) for name in names]
    return [(name, values) for name, values in rows if len(set(values)) > 1]


def _settings(row: run_lists.RunFigures) -> dict[str, str]:
    run, rows = row.run, row.run.training_set
    facts = {
        "agent": run.agent.name,
        "method": run.method,
        "rows to learn from": rows.train_rows if rows else "–",
        "training set": str(rows) if rows else "–",
    }
    options = {name: value for name, value in run.options.items() if name not in ("data", "origins")}
    options |= {f"data: {name}": value for name, value in (run.options.get("data") or {}).items()}
    words = {"": "–", "None": "–", "True": "yes", "False": "no"}
    return {name: words.get(str(value), str(value)) for name, value in {**facts, **run.config, **options}.items()}
