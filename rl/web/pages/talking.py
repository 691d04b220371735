"""Talk to an agent as its users do: one box, the answer as it comes, thumbs under it; and what training changed."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.decorators import permission_required
from django.contrib.auth.models import User
from django.db.models import Exists, OuterRef
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_POST, require_safe

from rl.base.errors import UsageError
from rl.base.names import unknown_name
from rl.collect.feedback.write import current_rating, retract
from rl.models import Agent, Deployment, Trace, version_name
from rl.serving.advice import deploy_command
from rl.web.before_after import newest_answers
from rl.web.conversations import read_question, why_nothing_answers
from rl.web.duels import recent_questions
from rl.web.front.questions import hand_over
from rl.web.own_questions import last_verdict, questions_before_and_after
from rl.web.pages.duels import training_of, votes_to_training
from rl.web.pages.guards import for_users
from rl.web.pages.rating_form import posted_trace, rate_as_posted
from rl.web.pages.talk_calls import for_talkers, talk_call
from rl.web.raters import rater_of, signed_in

SOURCE = "try_page"
AGENTS = 200
MAY_COMPARE = "rl.view_evaluation"


@require_safe
@for_talkers
def choose_agent(request: HttpRequest) -> HttpResponse:
    """One agent, or one that answers, needs no choice."""
    rows = Deployment.objects.exclude(target=Deployment.Target.NONE).filter(agent=OuterRef("pk"))
    agents = list(Agent.objects.annotate(is_served=Exists(rows.order_by())).order_by("-is_served", "name")[:AGENTS])
    served = [agent for agent in agents if agent.is_served]
    if len(only := served or agents) == 1:
        return redirect("try_agent", name=only[0].name)
    return render(request, "rl/try_choose.html", {"page": "try", "agents": agents})


@require_safe
@for_talkers
def talk(request: HttpRequest, name: str) -> HttpResponse:
    agent, user = get_object_or_404(Agent, name=name), signed_in(request)
    problem, version = why_nothing_answers(agent, user.pk, rater_of(user.get_username()))
    context = {
        "page": "try",
        "agent": agent,
        "problem": problem,
        "command": deploy_command(agent.name, version) if problem else "",
        "has_comparison": user.has_perm(MAY_COMPARE) and newest_answers(agent) is not None,
        "may_compare": user.has_perm(MAY_COMPARE),
        "examples": recent_questions(agent),
        "votes": votes_to_training(agent),
        **training_of(agent, user),
    }
    return render(request, "rl/try.html", context)


@require_POST
@talk_call
def answer(request: HttpRequest, agent: Agent, user: User) -> HttpResponse:
    """The gateway's stream, as its own clients get it."""
    return hand_over(request, read_question(request.body, agent, user.pk, rater_of(user.get_username())))


@require_POST
@talk_call
def rate_answer(request: HttpRequest, agent: Agent, user: User) -> HttpResponse:
    return JsonResponse({"value": _rate(request, posted_trace(agent, request.POST), user)})


@require_safe
@talk_call
def own_questions(request: HttpRequest, agent: Agent, user: User) -> JsonResponse:
    """What he asked, before and after; an answer that is not here yet is asked for by the page, as any question."""
    live = Deployment.champion(agent)
    questions = questions_before_and_after(agent, user.pk, live)
    news = {"verdict": last_verdict(agent), "live": version_name(live), "questions": questions}
    return JsonResponse({**news, **votes_to_training(agent)})


@for_users
@permission_required(MAY_COMPARE, raise_exception=True)
def before_and_after(request: HttpRequest, name: str) -> HttpResponse:
    """``?version=NAME``: of that one, whether it is in use or not."""
    agent = get_object_or_404(Agent, name=name)
    version = request.GET.get("version", "")
    context = {"page": "try", "agent": agent, "version": version, "compared": newest_answers(agent, version)}
    return render(request, "rl/before_and_after.html", context)


def _rate(request: HttpRequest, trace: Trace, user: User) -> float | None:
    """What his rating is now; None: he took it back. Raises UsageError."""
    by: dict[str, Any] = {"rater": rater_of(user.get_username()), "source": SOURCE, "user": user}
    action = request.POST.get("action", "rate")
    if action == "rate":
        return rate_as_posted(trace, request.POST, **by).event.value
    if action != "retract":
        raise UsageError(unknown_name("action", action, ("rate", "retract")))
    if rating := current_rating(trace, by["rater"]):
        retract(rating, **by)
    return None
