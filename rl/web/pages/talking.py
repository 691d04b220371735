"""Talk to an agent as its users do: one box, the answer as it comes, thumbs under it, or two answers, of which one picks the
better; train; and see what training changed."""

from typing import Any
from uuid import UUID

from django.contrib.auth.decorators import login_required, permission_required
from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.db.models import Exists, OuterRef
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST, require_safe

from rl.base.errors import RatchetError, UsageError
from rl.base.names import require_known, unknown_name
from rl.collect.feedback.answer_forms import find_form, judge_text
from rl.collect.feedback.write import correct, current_rating, rate, retract
from rl.models import Agent, Deployment, Feedback, Trace, TrainingRun, version_name
from rl.online_learner import OnlineLearner, samples_needed, waiting_feedback
from rl.serving.upstreams import deploy_command
from rl.web import conversations, duels
from rl.web.compared_answers import describe_compared
from rl.web.formatting import FORMATTER
from rl.web.front.answers import hand_over
from rl.web.markdown import LONGEST_FORMATTED
from rl.web.pages import guards
from rl.web.pages.instructing import describe_instruction, may_instruct
from rl.web.rating_items import controls_of, likely_values
from rl.web.tastes import describe_tastes
from rl.web.version_figures import sentence

SOURCE = "try_page"
AGENTS = 200
FORMAT_SECONDS = 2.0
"""Nobody waits meanwhile: the answer is there to read."""
MAY_COMPARE, MAY_TRAIN = "rl.view_evaluation", "rl.add_trainingrun"


@require_safe
@guards.for_talkers
def choose_agent(request: HttpRequest) -> HttpResponse:
    """One agent, or one that answers, needs no choice."""
    rows = Deployment.objects.exclude(target=Deployment.Target.NONE).filter(agent=OuterRef("pk"))
    agents = list(Agent.objects.annotate(is_served=Exists(rows.order_by())).order_by("-is_served", "name")[:AGENTS])
    served = [agent for agent in agents if agent.is_served]
    if len(only := served or agents) == 1:
        return redirect("try_agent", name=only[0].name)
    return render(request, "rl/try_choose.html", {"page": "try", "agents": agents})


@require_safe
@guards.for_talkers
def talk(request: HttpRequest, name: str) -> HttpResponse:
    agent, user = get_object_or_404(Agent, name=name), guards.signed_in(request)
    problem, version = conversations.why_nothing_answers(agent, user.pk, guards.rater_of(user.get_username()))
    form, may_compare = find_form(agent, fresh=True), user.has_perm(MAY_COMPARE)
    context = {
        "page": "try",
        "agent": agent,
        "problem": problem,
        "command": deploy_command(agent.name, version) if problem else "",
        "has_comparison": may_compare and conversations.newest_answers(agent) is not None,
        "may_compare": may_compare,
        "examples": duels.recent_questions(agent),
        "votes": votes_to_training(agent, user),
        "asks": "" if form is None else "closed" if form.values else "structured",
        "may_watch": _may_watch(user),
        "may_instruct": (instructs := may_instruct(user)),
        "instruction": describe_instruction(agent) if instructs else None,
        "may_train": user.is_staff and user.has_perm(MAY_TRAIN),
        "may_cancel": _may_watch(user) and user.has_perm("rl.change_trainingrun"),
    }
    return render(request, "rl/try.html", context)


@require_POST
@guards.talk_call
def answer(request: HttpRequest, agent: Agent, user: User) -> HttpResponse:
    """The gateway's stream, as its own clients get it."""
    return hand_over(
        request, conversations.read_question(request.body, agent, user.pk, guards.rater_of(user.get_username()))
    )


@require_safe
@guards.talk_call
def answer_form(request: HttpRequest, agent: Agent, user: User, trace: UUID) -> JsonResponse:
    """What corrects an answer by one click or one field, and whether the next like question is answered so at once."""
    shown, form = guards.find_trace(agent, trace), find_form(agent)
    values = likely_values(form, shown)
    is_chosen = bool(values) and "remembered" in (shown.details.get("chosen") or {})
    controls = controls_of(form, shown, agent.system_prompt)
    return JsonResponse({"form": controls, "values": values, "is_chosen": is_chosen})


@require_POST
@guards.talk_call
def format_answer(request: HttpRequest, agent: Agent, user: User) -> JsonResponse:
    """The Markdown of a ``text`` as HTML, empty where that takes too long. The page sends the words: nothing here knows
    whose they are."""
    text = request.POST.get("text", "").replace("\r\n", "\n")
    FORMATTER.be_ready()
    return JsonResponse({"html": FORMATTER.html_of(text, FORMAT_SECONDS) if len(text) <= LONGEST_FORMATTED else ""})


@require_POST
@guards.talk_call
def rate_answer(request: HttpRequest, agent: Agent, user: User) -> HttpResponse:
    """``value`` with ``tags`` and ``notes``, or the right answer as ``text``; or ``action`` retract. Of all this the last
    word of a person on an answer counts."""
    word = _rate(request, guards.posted_trace(agent, request.POST), guards.said_by(user, SOURCE))
    return JsonResponse({**word, **votes_to_training(agent, user)})


@require_safe
@guards.talk_call
def own_questions(request: HttpRequest, agent: Agent, user: User) -> JsonResponse:
    """What he asked, before and after; an answer that is not here yet is asked for by the page, as any question."""
    live = Deployment.champion(agent)
    questions = conversations.questions_before_and_after(agent, user.pk, live)
    news = {"verdict": conversations.last_verdict(agent), "live": version_name(live), "questions": questions}
    return JsonResponse({**news, **votes_to_training(agent, user)})


@guards.for_users
@permission_required(MAY_COMPARE, raise_exception=True)
def before_and_after(request: HttpRequest, name: str) -> HttpResponse:
    """``?version=NAME``: of that one, whether it is in use or not. ``?answers=lost``: as on the page of a version."""
    agent = get_object_or_404(Agent, name=name)
    version = request.GET.get("version", "")
    compared = conversations.newest_answers(agent, version)
    context = {"page": "try", "agent": agent, "version": version, "compared": compared}
    if compared:
        context |= describe_compared(compared.evaluation, request.GET.get("answers", ""))
        context["sentence"] = sentence(compared.evaluation)
    return render(request, "rl/before_and_after.html", context)


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
        return {"value": (right or guards.rate_as_posted(trace, request.POST, **by)).event.value, "text": ""}


@require_POST
@guards.talk_call
def draw(request: HttpRequest, agent: Agent, user: User) -> HttpResponse:
    rater = guards.rater_of(user.get_username())
    pair = duels.draw_pair(conversations.route_of(agent, user.pk, rater), request.session, rater)
    return JsonResponse({"pair": str(pair.pk)})


@require_POST
@guards.talk_call
def answer_side(request: HttpRequest, agent: Agent, user: User, pair: UUID, side: str) -> HttpResponse:
    """The gateway's stream with nothing in it but the words."""
    drawn = duels.drawn_side(agent, pair, side, request.session)
    return hand_over(
        request, conversations.read_question(request.body, agent, user.pk, guards.rater_of(user.get_username()), drawn)
    )


@require_POST
@guards.talk_call
def vote(request: HttpRequest, agent: Agent, user: User) -> HttpResponse:
    """``pair`` with ``choice`` (a, b, tie, both_bad), or ``action`` undo, or edit with ``text``. Tells who gave the answers,
    save after an undo."""
    posted, by = request.POST, guards.said_by(user, duels.SOURCE)
    pair = duels.own_pair(agent, posted.get("pair", ""), by["rater"])
    action = posted.get("action", "vote")
    if action == "undo":
        duels.take_back(pair, by)
    elif action == "edit":
        duels.edit(pair, posted.get("text", ""), by)
    elif action == "vote":
        duels.vote(pair, posted.get("choice", ""), by)
    else:
        raise UsageError(unknown_name("action", action, ("vote", "edit", "undo")))
    return JsonResponse({"sides": [] if action == "undo" else duels.reveal(pair), **votes_to_training(agent, user)})


@require_POST
@never_cache
@login_required
@permission_required(MAY_TRAIN, raise_exception=True)
def train(request: HttpRequest, name: str) -> HttpResponse:
    """As the button of the agent's page in the admin: a run on all that waits."""
    if not guards.signed_in(request).is_staff:
        raise PermissionDenied
    agent = get_object_or_404(Agent, name=name)
    try:
        run = OnlineLearner(agent).trigger_retrain()
    except RatchetError as error:
        return JsonResponse({"error": str(error)}, status=400)
    return JsonResponse({"run": run.pk})


def votes_to_training(agent: Agent, user: User) -> dict[str, Any]:
    """How far it is, whose ratings it learns from, and the run that goes on, for who may see it."""
    run = agent.runs.filter(state__in=TrainingRun.ACTIVE).first() if _may_watch(user) else None
    tastes = describe_tastes(agent, guards.rater_of(user.get_username()))
    waiting, needed = waiting_feedback(agent).count(), samples_needed(agent)
    return {"waiting": waiting, "needed": needed, "tastes": tastes, "run": run.pk if run else None}


def _may_watch(user: User) -> bool:
    return user.is_staff and user.has_perm("rl.view_trainingrun")
