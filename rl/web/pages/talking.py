"""Talk to an agent as its users do: one box, the answer as it comes, thumbs under it; and what training changed."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.contrib.auth.decorators import permission_required
from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import Exists, OuterRef
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_POST, require_safe

from rl.base.names import require_known
from rl.collect.feedback.answer_forms import AnswerForm, find_form, judge_text
from rl.collect.feedback.write import correct, current_rating, rate, retract
from rl.models import Agent, Deployment, Feedback, Trace, version_name
from rl.serving.advice import deploy_command
from rl.web.answer_controls import controls_of, likely_values
from rl.web.before_after import newest_answers
from rl.web.conversations import read_question, why_nothing_answers
from rl.web.duels import recent_questions
from rl.web.front.questions import hand_over
from rl.web.own_questions import last_verdict, questions_before_and_after
from rl.web.pages.duels import training_of, votes_to_training
from rl.web.pages.guards import for_users
from rl.web.pages.rating_form import find_trace, posted_trace, rate_as_posted
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
        "asks": _kind_of(find_form(agent, fresh=True)),
        **training_of(agent, user),
    }
    return render(request, "rl/try.html", context)


@require_POST
@talk_call
def answer(request: HttpRequest, agent: Agent, user: User) -> HttpResponse:
    """The gateway's stream, as its own clients get it."""
    return hand_over(request, read_question(request.body, agent, user.pk, rater_of(user.get_username())))


@require_safe
@talk_call
def answer_form(request: HttpRequest, agent: Agent, user: User, trace: UUID) -> JsonResponse:
    """What corrects an answer by one click or one field, and whether the next like question is answered so at once."""
    shown, form = find_trace(agent, trace), find_form(agent)
    values = likely_values(form, shown)
    is_chosen = bool(values and shown.details.get("chosen"))
    controls = controls_of(form, shown, agent.system_prompt)
    return JsonResponse({"form": controls, "values": values, "is_chosen": is_chosen})


@require_POST
@talk_call
def rate_answer(request: HttpRequest, agent: Agent, user: User) -> HttpResponse:
    """``value`` with ``tags`` and ``notes``, or the right answer as ``text``; or ``action`` retract. Of all this the last
    word of a person on an answer counts."""
    by: dict[str, Any] = {"rater": rater_of(user.get_username()), "source": SOURCE, "user": user}
    word = _rate(request, posted_trace(agent, request.POST), by)
    return JsonResponse({**word, **votes_to_training(agent)})


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


def _kind_of(form: AnswerForm | None) -> str:
    """Empty where answers are free."""
    return "" if form is None else "closed" if form.values else "structured"


def _rate(request: HttpRequest, trace: Trace, by: dict[str, Any]) -> dict[str, Any]:
    """What he says of it now: a ``value``, or the right answer as ``text``; neither, where he took it back. Raises
    UsageError."""
    action, text = request.POST.get("action", "rate"), request.POST.get("text", "").replace("\r\n", "\n")
    require_known("action", action, ("rate", "retract"))
    word = judge_text(trace.agent, text, trace.response) if text else {}
    with transaction.atomic():
        corrections = trace.feedback.filter(rater=by["rater"], kind=Feedback.Kind.CORRECTION, source=SOURCE)
        for event in corrections.filter(is_current=True).exclude(text=word.get("text", "")):
            retract(event, **by)
        rating = current_rating(trace, by["rater"])
        if rating and (action == "retract" or "text" in word):
            retract(rating, **by)
        if action == "retract":
            return {"value": None, "text": ""}
        if "text" in word:
            return {"value": None, "text": correct(trace, text=word["text"], **by).event.text}
        right = word and rate(trace, scale=Feedback.Scale.THUMB, value=word["value"], **by)
        return {"value": (right or rate_as_posted(trace, request.POST, **by)).event.value, "text": ""}
