"""What the answers should be like, said in a sentence on the page of a conversation: tried on past questions, put into use,
and taken back."""

from collections import Counter
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
from rl.models import Agent, Deployment, Feedback, ModelVersion, UserTurns, version_name
from rl.serving import instructions, promotion, withdrawal
from rl.web import conversations
from rl.web.front.answers import hand_over
from rl.web.pages import guards
from rl.web.pages.versions import PROMOTE

PAST: Final = 8
"""Questions that it is tried on."""
LOOKED_THROUGH: Final = 300
"""Newest answers in which they are looked for, and newest notes."""
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


def _notes(agent: Agent) -> list[str]:
    """The commonest of the newest, in the words of whoever wrote them first, without a name."""
    rows = Feedback.objects.filter(agent=agent, is_current=True).exclude(notes="").order_by("-created_at")
    newest = [" ".join(note.split()) for note in rows.values_list("notes", flat=True)[:LOOKED_THROUGH]]
    short = {note.casefold(): note for note in newest if len(note) <= LONGEST_NOTE}
    counts = Counter(note.casefold() for note in newest if note.casefold() in short)
    return [short[note] for note, _ in counts.most_common(NOTES)]


@require_POST
@guards.talk_call
def change_instruction(request: HttpRequest, agent: Agent, user: User) -> JsonResponse:
    """``action`` is try with ``text`` and ``place``; or use, leave or back with a ``version``."""
    if not may_instruct(user):
        raise PermissionDenied(REFUSAL)
    action = request.POST.get("action", "")
    require_known("action", action, _ACTIONS)
    return JsonResponse(_ACTIONS[action](agent, request.POST))


@require_POST
@guards.talk_call
def answer_as(request: HttpRequest, agent: Agent, user: User, version: str) -> HttpResponse:
    """The gateway's stream, by the version that the page names."""
    if not may_instruct(user):
        raise PermissionDenied(REFUSAL)
    rater = guards.rater_of(user.get_username())
    return hand_over(request, conversations.read_question(request.body, agent, user.pk, rater, pinned=version))


def _try(agent: Agent, posted: Mapping[str, str]) -> dict[str, Any]:
    """The version that was made of it, and past questions with the answers of what is in use, None where it has none."""
    version = instructions.instruct(agent, posted.get("text", ""), posted.get("place") or instructions.QUESTION)
    live = Deployment.champion(agent)
    return {"version": version.name, "before": version_name(live), "questions": past_questions(agent, live)}


def past_questions(agent: Agent, live: ModelVersion | None) -> list[dict[str, Any]]:
    """The newest different ones that began a conversation, each with the newest answer of ``live``."""
    rows = agent.traces.annotate(turns=UserTurns("prompt")).filter(turns=1, tool_calls=[]).exclude(response="")
    sides: dict[str, dict[str, Any]] = {}
    rows = rows.only("prompt", "prompt_key", "response", "model_version").order_by("-created_at")
    for trace in rows[:LOOKED_THROUGH].iterator(chunk_size=50):
        if len(sides) == PAST and trace.prompt_key not in sides:
            continue
        entry = sides.setdefault(trace.prompt_key, {"question": trace.question, "before": None})
        if entry["before"] is None and trace.model_version_id == (live.pk if live else None):
            entry["before"] = trace.response
    return [*sides.values()]


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


_ACTIONS: Final = {"try": _try, "use": _use, "leave": _leave, "back": _take_back}
