"""What the answers should be like, said in a sentence on the page of a conversation: tried on past questions, put into use,
and taken back."""

from collections.abc import Mapping
from typing import Any, Final

from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import get_object_or_404
from django.utils.translation import gettext_lazy as _
from django.views.decorators.http import require_POST

from rl.base.errors import UsageError
from rl.base.names import require_known
from rl.models import Agent, Deployment, Feedback, ModelVersion, version_name
from rl.serving import forecast, instructions, judge_server, promotion, withdrawal
from rl.serving.gateway.best_of import Unjudged
from rl.serving.heeded import DryRun, past_questions
from rl.web import conversations
from rl.web.front.answers import hand_over, when_done
from rl.web.notes import group_notes
from rl.web.pages import guards
from rl.web.pages.versions import PROMOTE

PAST: Final = 8
"""Questions that it is tried on."""
SECONDS: Final = 40.0
"""That finding the place may take."""
LOOKED_THROUGH: Final = 300
"""Newest notes."""
NOTES: Final = 5
LONGEST_NOTE: Final = 120
NEEDED: Final = (PROMOTE, "rl.view_trace", "rl.view_feedback")
"""It shows what others asked, and what raters wrote."""
REFUSAL: Final = _("What is in use is changed by staff who may change deployments, and see traces and feedback.")


def may_instruct(user: User) -> bool:
    return user.is_staff and user.has_perms(NEEDED)


def describe_instruction(agent: Agent) -> dict[str, Any]:
    """For the page: what the version in use is told, whether that can be taken back by a click, and what raters wrote."""
    version = Deployment.champion(agent)
    instruction = version.instruction if version else ""
    return {
        "told": instruction,
        "taken_back": version.name if version and version.is_worded else "",
        "notes": _notes(agent),
    }


def _notes(agent: Agent) -> list[tuple[str, int]]:
    """The commonest of the newest with how many say the same, without a name."""
    rows = Feedback.objects.filter(agent=agent, is_current=True).exclude(notes="").order_by("-created_at")
    newest = [" ".join(note.split()) for note in rows.values_list("notes", flat=True)[:LOOKED_THROUGH]]
    return group_notes(note for note in newest if len(note) <= LONGEST_NOTE)[:NOTES]


@require_POST
@guards.talk_call
def change_instruction(request: HttpRequest, agent: Agent, user: User) -> HttpResponse:
    """``action`` is place with ``text``; try with ``text`` and ``place``; use, leave or back with a ``version``; or judge
    with a ``question`` and two answers, ``before`` and ``after``."""
    if not may_instruct(user):
        raise PermissionDenied(REFUSAL)
    action = request.POST.get("action", "")
    require_known("action", action, (_PLACE, *_ACTIONS))
    if action == _PLACE:
        return _find_place(request, agent)
    return JsonResponse(_ACTIONS[action](agent, request.POST))


@require_POST
@guards.talk_call
def answer_as(request: HttpRequest, agent: Agent, user: User, version: str) -> HttpResponse:
    """The gateway's stream, by the version that the page names."""
    if not may_instruct(user):
        raise PermissionDenied(REFUSAL)
    rater = guards.rater_of(user.get_username())
    return hand_over(request, conversations.read_question(request.body, agent, user.pk, rater, pinned=version))


def _find_place(request: HttpRequest, agent: Agent) -> HttpResponse:
    """Where it is heeded, after some of the past questions were answered each way. Whoever leaves the page ends it."""
    questions = [row["question"] for row in past_questions(agent, Deployment.champion(agent), PAST)]
    dry_run = DryRun(agent, request.POST.get("text", ""), questions, SECONDS)

    def tell() -> dict[str, Any]:
        outcome = dry_run.outcome
        return {"place": outcome.better, "heeded": outcome.heeded, "of": outcome.of, "sure": outcome.is_sure}

    return when_done(request, dry_run.work, tell)


def _judge(agent: Agent, posted: Mapping[str, str]) -> dict[str, Any]:
    """``prefers`` the new answer, null where both are the same; or ``problem``, and whether it ``waits`` for the judge."""
    question, old, new = (posted.get(name, "") for name in ("question", "before", "after"))
    try:
        return {"prefers": forecast.compare(agent, question, old, new)}
    except (UsageError, Unjudged) as problem:
        return {"problem": str(problem), "waits": isinstance(problem, Unjudged)}


def _try(agent: Agent, posted: Mapping[str, str]) -> dict[str, Any]:
    """The version that was made of it, and past questions with the answers of what is in use, None where it has none."""
    version = instructions.instruct(agent, posted.get("text", ""), posted.get("place") or instructions.QUESTION)
    judge_server.wake(agent)  # it starts while the questions are answered
    live = Deployment.champion(agent)
    return {"version": version.name, "before": version_name(live), "questions": past_questions(agent, live, PAST)}


def _use(agent: Agent, posted: Mapping[str, str]) -> dict[str, Any]:
    promotion.promote(agent, _find(agent, posted))
    return describe_instruction(agent)


def _leave(agent: Agent, posted: Mapping[str, str]) -> dict[str, Any]:
    version = _find(agent, posted)
    if version == Deployment.champion(agent):
        raise UsageError(f"{version.name} is in use: take it back first")
    if withdrawal.rows_of(agent, version).exists():
        withdrawal.stop_serving(agent, version)
    return describe_instruction(agent)


def _take_back(agent: Agent, posted: Mapping[str, str]) -> dict[str, Any]:
    promotion.roll_back(agent, instead_of=_find(agent, posted))
    return describe_instruction(agent)


def _find(agent: Agent, posted: Mapping[str, str]) -> ModelVersion:
    version = get_object_or_404(agent.versions, name=posted.get("version", ""))
    if not version.is_worded:
        raise UsageError(f"{version.name} was trained: its own page puts it into use")
    return version


_PLACE: Final = "place"
_ACTIONS: Final = {"try": _try, "use": _use, "leave": _leave, "back": _take_back, "judge": _judge}
