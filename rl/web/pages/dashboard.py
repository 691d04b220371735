"""The dashboard."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from django.conf import settings
from django.core.exceptions import PermissionDenied
from django.db.models import Model
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render

from rl.base.disk_space import shortage
from rl.models import Agent, Deployment, Evaluation, Experiment, ModelVersion, Trace, TrainingRun, version_name
from rl.serving import machine
from rl.serving.advice import deploy_command
from rl.web import dashboard_counts
from rl.web.agent_steps import why_queued
from rl.web.dashboard_counts import VersionFigures
from rl.web.pages.guards import for_users


@for_users
def dashboard(request: HttpRequest) -> HttpResponse:
    """For staff who may see agents, each kind of record with the permission to see it; people who may only rate go on to
    what they may do."""
    may_see = partial(_may_see, request.user)
    if not may_see(Agent):
        return _go_on(request)
    days = dashboard_counts.feedback_per_day()
    agents, versions = dashboard_counts.agents_and_versions()
    versions = versions if may_see(ModelVersion) else []
    runs = dashboard_counts.recent_runs() if may_see(TrainingRun) else []
    context = {
        "page": "dashboard",
        **_needs(runs, versions),
        "shortage": shortage(settings.DATA_DIR, settings.MIN_FREE_BYTES),
        "days": days,
        "total": sum(count for _, count in days),
        "agents": agents,
        "agents_shown": dashboard_counts.AGENTS,
        "versions": versions,
        "runs": runs,
        "served": dashboard_counts.served_deployments() if may_see(Deployment) else [],
        "experiments": dashboard_counts.running_experiments() if may_see(Experiment) else [],
        "deploy_command": deploy_command(agents[0].agent.name, version_name(agents[0].champion)) if agents else "",
        "decisions": machine.decisions() if may_see(Deployment) else [],
        "has_traces": Trace.objects.exists(),
        "has_feedback": any(row.current for row in agents),
    }
    return render(request, "rl/dashboard.html", context)


def _may_see(user: Any, kind: type[Model]) -> bool:
    return user.is_staff and user.has_perm(f"rl.view_{kind._meta.model_name}")


def _go_on(request: HttpRequest) -> HttpResponse:
    """Raises PermissionDenied."""
    if request.user.has_perm("rl.add_feedback"):
        return redirect("rate")
    if request.user.is_staff:
        raise PermissionDenied("You are staff, but nobody has given you the permission to see agents.")
    raise PermissionDenied("You are signed in, but nobody has given you the permission to rate answers.")


def _needs(runs: Sequence[TrainingRun], versions: Sequence[VersionFigures]) -> dict[str, Any]:
    """What waits for a person: of each agent its newest run, if that failed, and its newest version, if nobody can tell."""
    newest_runs = {run.agent_id: run for run in reversed(runs)}.values()
    newest_versions = {row.version.agent_id: row for row in reversed(versions)}.values()
    undecided = Evaluation.Verdict.UNDECIDED
    return {
        "queue_problem": next(filter(None, map(why_queued, runs)), ""),
        "failed": [run for run in newest_runs if run.state == TrainingRun.State.FAILED],
        "open_verdicts": [row for row in newest_versions if row.evaluation and row.evaluation.verdict == undecided],
    }
