"""What the page under /try/ sends while one compares two answers: draw a pair, ask both sides, vote, train."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.contrib.auth.decorators import login_required, permission_required
from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import get_object_or_404
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST

from rl.base.errors import RatchetError, UsageError
from rl.base.names import unknown_name
from rl.models import Agent, TrainingRun
from rl.online_learner import OnlineLearner, samples_needed, waiting_feedback
from rl.web import duel_votes
from rl.web.conversations import read_question, route_of
from rl.web.duels import draw_pair, drawn_side, own_pair
from rl.web.front.questions import hand_over
from rl.web.pages.talk_calls import talk_call
from rl.web.raters import rater_of, signed_in

MAY_TRAIN = "rl.add_trainingrun"
MAY_WATCH = "rl.view_trainingrun"
MAY_CANCEL = "rl.change_trainingrun"


@require_POST
@talk_call
def draw(request: HttpRequest, agent: Agent, user: User) -> HttpResponse:
    rater = rater_of(user.get_username())
    pair = draw_pair(route_of(agent, user.pk, rater), request.session, rater)
    return JsonResponse({"pair": str(pair.pk)})


@require_POST
@talk_call
def answer_side(request: HttpRequest, agent: Agent, user: User, pair: UUID, side: str) -> HttpResponse:
    """The gateway's stream with nothing in it but the words."""
    drawn = drawn_side(agent, pair, side, request.session)
    return hand_over(request, read_question(request.body, agent, user.pk, rater_of(user.get_username()), drawn))


@require_POST
@talk_call
def vote(request: HttpRequest, agent: Agent, user: User) -> HttpResponse:
    """``pair`` with ``choice`` (a, b, tie, both_bad), or ``action`` undo, or edit with ``text``."""
    sides = _vote(agent, request.POST, duel_votes.Voter(rater_of(user.get_username()), user))
    return JsonResponse({"sides": sides, **votes_to_training(agent)})


@require_POST
@never_cache
@login_required
@permission_required(MAY_TRAIN, raise_exception=True)
def train(request: HttpRequest, name: str) -> HttpResponse:
    """As the button of the agent's page in the admin: a run on all that waits."""
    if not signed_in(request).is_staff:
        raise PermissionDenied
    agent = get_object_or_404(Agent, name=name)
    try:
        run = OnlineLearner(agent).trigger_retrain()
    except RatchetError as error:
        return JsonResponse({"error": str(error)}, status=400)
    return JsonResponse({"run": run.pk})


def votes_to_training(agent: Agent) -> dict[str, int]:
    return {"waiting": waiting_feedback(agent).count(), "needed": samples_needed(agent)}


def training_of(agent: Agent, user: User) -> dict[str, Any]:
    """What he may see and do of it; ``active_run`` only where he may watch."""
    may_watch = user.is_staff and user.has_perm(MAY_WATCH)
    active = agent.runs.filter(state__in=TrainingRun.ACTIVE).first() if may_watch else None
    return {
        "may_watch": may_watch,
        "may_train": user.is_staff and user.has_perm(MAY_TRAIN),
        "may_cancel": may_watch and user.has_perm(MAY_CANCEL),
        "active_run": active.pk if active else None,
    }


def _vote(agent: Agent, posted: Any, voter: duel_votes.Voter) -> list[dict[str, Any]]:
    """Who gave the answers; empty after an undo. Raises UsageError."""
    pair = own_pair(agent, posted.get("pair", ""), voter.rater)
    action = posted.get("action", "vote")
    if action == "undo":
        duel_votes.take_back(pair, voter)
        return []
    if action == "edit":
        duel_votes.edit(pair, posted.get("text", ""), voter)
    elif action == "vote":
        duel_votes.vote(pair, posted.get("choice", ""), voter)
    else:
        raise UsageError(unknown_name("action", action, ("vote", "edit", "undo")))
    return duel_votes.reveal(pair)
