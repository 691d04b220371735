"""The dashboard; agents: the list, and the loop of one of them as five steps."""

from typing import Any
from urllib.parse import urljoin, urlsplit

from csp.decorators import csp_replace
from django.conf import settings
from django.contrib.auth.decorators import login_required, permission_required
from django.core.exceptions import PermissionDenied
from django.db.models import Model, QuerySet
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop
from django.views.decorators.http import require_safe

from rl.base.disk_space import shortage
from rl.models import Agent, ApiKey, Deployment, Experiment, Feedback, Trace, TrainingRun, version_name
from rl.operations import queue_state
from rl.queues.editing import LABELS
from rl.serving import machine
from rl.serving.upstreams import deploy_command
from rl.web import dashboard_counts
from rl.web.agent_search import AgentSearch
from rl.web.agent_steps import look_at, why_queued
from rl.web.kept_figures import KEPT
from rl.web.pages.guards import for_users, require_staff
from rl.web.version_history import MOST, measured_versions

ANSWERS, NEWEST = 3, 200


@require_safe
def embedded_widget(request: HttpRequest) -> HttpResponse:
    """Somebody's page with the rating widget in it. Development only: it shows answers to whoever asks."""
    if not settings.DEBUG:
        raise Http404
    # The widget is loaded from, and talks to, the public address, as on a page of another site; on this machine at the port
    # that the page came from, as a server started by hand has another one.
    site, port = urlsplit(settings.SITE_URL), urlsplit(f"//{request.get_host()}").port
    is_here = site.hostname in ("127.0.0.1", "localhost") and port
    api = f"{site.scheme}://{site.hostname}:{port}{site.path}" if is_here else settings.SITE_URL
    # A key that is bound to an agent rates that agent's answers only.
    key = ApiKey.find(request.GET.get("key", ""))
    traces = Trace.objects.filter(agent=key.agent) if key and key.agent else Trace.objects.all()
    traces = traces.exclude(response="")
    context = {
        "api_origin": api,
        "widget_url": f"{api}/static/rl/ratchet-feedback.js",
        "answers": [
            {"trace": trace.pk, "question": trace.question, "answer": trace.response} for trace in traces[:ANSWERS]
        ],
        "pair": _find_pair(traces),
    }
    origin = urljoin(api, "/").rstrip("/")
    sources = {"script-src": ["'self'", origin], "connect-src": [origin]}
    return csp_replace(sources)(render)(request, "rl/embed_demo.html", context)


def _find_pair(traces: QuerySet[Trace]) -> dict[str, object] | None:
    """Two different answers to the same prompt, of the newest that have one another."""
    newest: dict[tuple[int, str], Trace] = {}
    for trace in traces[:NEWEST]:
        other = newest.setdefault((trace.agent_id, trace.prompt_key), trace)
        if other.response != trace.response:
            texts = {"question": trace.question, "answer": trace.response, "other_answer": other.response}
            return {"trace": trace.pk, "other": other.pk, **texts}
    return None


@for_users
def dashboard(request: HttpRequest) -> HttpResponse:
    """For staff who may see agents, each kind of record with the permission to see it; people who may only rate go on to
    what they may do."""

    def may_see(kind: type[Model]) -> bool:
        return request.user.is_staff and request.user.has_perm(f"rl.view_{kind._meta.model_name}")

    if not may_see(Agent):
        if request.user.has_perm("rl.add_feedback"):
            return redirect("rate")
        if request.user.is_staff:
            raise PermissionDenied(_("You are staff, but nobody has given you the permission to see agents."))
        raise PermissionDenied(_("You are signed in, but nobody has given you the permission to rate answers."))
    days = dashboard_counts.last_days(dashboard_counts.DAYS)
    ratings = dashboard_counts.feedback_by_day(Feedback.objects.all(), days)
    most, listed = dashboard_counts.AGENTS, _list_agents(request)
    agents = listed["agents"]
    reachable = Deployment.objects.exclude(target=Deployment.Target.NONE).select_related("agent", "version")
    served = reachable.order_by("agent__name", "-alias", "-created_at")[:most]  # of each agent the version in use first
    running = Experiment.objects.filter(state=Experiment.State.RUNNING).select_related("agent")
    context = {
        "page": "dashboard",
        **listed,
        "needed": [row for row in agents if row.need],
        "idle": [row for row in agents if not row.need],
        "queue_problem": queue_state.why_silent() if agents and may_see(TrainingRun) else "",
        "shortage": shortage(settings.DATA_DIR, settings.MIN_FREE_BYTES),
        "days": list(zip(days, ratings, strict=True)),
        "total": sum(ratings),
        "served": list(served) if may_see(Deployment) else [],
        "experiments": running[:most] if may_see(Experiment) else [],
        "deploy_command": deploy_command(agents[0].agent.name, version_name(agents[0].champion)) if agents else "",
        "decisions": machine.decisions() if may_see(Deployment) else [],
        "has_traces": Trace.objects.exists(),
        "has_feedback": any(row.current for row in agents),
    }
    return render(request, "rl/dashboard.html", context)


def _list_agents(request: HttpRequest) -> dict[str, Any]:
    """What a list of agents shows staff of them, by need; ``find`` and ``page`` stand in the address."""
    search, may_see_runs = AgentSearch.of(request), request.user.has_perm("rl.view_trainingrun")
    agents, has_more = dashboard_counts.agents_by_need(search.find, search.page, with_failures=may_see_runs)
    return {"agents": agents, **search.describe(has_more=has_more, is_long=len(agents) >= SEARCHED)}


REFUSAL = gettext_noop("Agents are for staff with the permission to see them.")
VERSIONS = 20
SEARCHED = 10
"""Agents from which on there is a search."""


@for_users
def agent_list(request: HttpRequest) -> HttpResponse:
    """An only agent needs no choice."""
    require_staff(request, "rl.view_agent", REFUSAL)
    listed = _list_agents(request)
    if len(listed["agents"]) == 1 and not listed["is_long"]:
        return redirect("agent", name=listed["agents"][0].agent.name)
    return render(request, "rl/agents.html", {"page": "agents", **listed})


@for_users
def one_agent(request: HttpRequest, name: str) -> HttpResponse:
    require_staff(request, "rl.view_agent", REFUSAL)
    agent = get_object_or_404(Agent, name=name)
    loop, versions = look_at(agent), list(agent.versions.select_related("run", "weights")[:MOST])
    context = {
        "page": "agents",
        "agent": agent,
        "loop": loop,
        "now": loop.bottleneck,
        "kept": KEPT.now(agent),
        "queue_problem": why_queued(loop.active),
        "versions": versions[:VERSIONS],
        "history": measured_versions(agent, versions),
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
