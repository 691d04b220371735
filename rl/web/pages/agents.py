"""Agents: the list, and the loop of one of them as five steps."""

from __future__ import annotations

from django.contrib.auth.decorators import login_required, permission_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_safe

from rl.collect.feedback.kept_answers import read_kept_answers
from rl.models import Agent
from rl.queues.builtin import LABELS
from rl.serving.advice import deploy_command
from rl.web import dashboard_counts
from rl.web.agent_steps import look_at, why_queued
from rl.web.pages.guards import for_users, require_staff

REFUSAL = "Agents are for staff with the permission to see them."
VERSIONS = 20


@for_users
def agent_list(request: HttpRequest) -> HttpResponse:
    """An only agent needs no choice."""
    require_staff(request, "rl.view_agent", REFUSAL)
    rows, _ = dashboard_counts.agents_and_versions()
    if len(rows) == 1:
        return redirect("agent", name=rows[0].agent.name)
    context = {"page": "agents", "agents": rows, "agents_shown": dashboard_counts.AGENTS}
    return render(request, "rl/agents.html", context)


@for_users
def one_agent(request: HttpRequest, name: str) -> HttpResponse:
    require_staff(request, "rl.view_agent", REFUSAL)
    agent = get_object_or_404(Agent, name=name)
    loop = look_at(agent)
    context = {
        "page": "agents",
        "agent": agent,
        "loop": loop,
        "now": loop.bottleneck,
        "kept": read_kept_answers(agent),
        "queue_problem": why_queued(loop.active),
        "versions": agent.versions.all()[:VERSIONS],
        "rewards": sorted(agent.reward_weights.items()),
        "keys": agent.api_keys.filter(revoked_at=None)[:VERSIONS],
        "command": deploy_command(agent.name, loop.newest.name if loop.newest else "base"),
    }
    return render(request, "rl/agent.html", context)


@require_safe
@login_required
@permission_required(["rl.view_trace", "rl.add_feedback"], raise_exception=True)
def label_traces(request: HttpRequest, name: str) -> HttpResponse:
    """Where people have labelled traces one after the other: a queue of the rating page now."""
    return redirect("rate_queue", get_object_or_404(Agent, name=name).name, LABELS)
