"""Who may rate a queue: people who are signed in and have the permission, and whoever has an invitation to it.

An invitation has a signed cookie of its own, which opens its queue and nothing else of the site.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from django.conf import settings
from django.contrib.auth.models import User
from django.core import signing
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404

from rl.models import Agent, Invite, RatingQueue
from rl.queues import invites
from rl.queues.builtin import queue_of
from rl.queues.decisions import Rater
from rl.web.raters import rater_of
from rl.web.rating_desk import Desk
from rl.web.rating_filters import EVERYTHING, Selection

MAY_RATE = "rl.add_feedback"
COOKIE: Final = "ratchet_invite"
_SALT: Final = "rl.web.rating_access"


@dataclass(slots=True)
class Refusal(Exception):
    """Why an invitation does not open this page, or not yet; ``invite``: it would, if this browser took it (over)."""

    title: str
    text: str
    invite: Invite | None = None
    queue: RatingQueue | None = None
    """The one that the invitation is for, where that is another."""
    button: str = "Continue here"

    @property
    def token(self) -> str:
        return invites.token_of(self.invite) if self.invite else ""


def open_desk(request: HttpRequest, agent: str, name: str) -> Desk | None:
    """None: he must sign in first. Raises Refusal, PermissionDenied and Http404."""
    if isinstance(request.user, User) and request.user.has_perm(MAY_RATE):
        queue = queue_of(get_object_or_404(Agent, name=agent), name)
        if queue is None:
            raise Http404(f"agent {agent} has no queue {name}")
        rater = Rater(rater_of(request.user.get_username()), request.user)
        return Desk(queue, rater, Selection.read(request.GET))
    if invite := _invite_in(request):
        return _invited_desk(request, invite, agent, name)
    if request.user.is_authenticated:
        raise PermissionDenied("You are signed in, but nobody has given you the permission to rate answers.")
    return None


def let_in(response: HttpResponse, invite: Invite) -> None:
    """Makes this browser the one that uses the invitation."""
    value = {"invite": invite.pk, "device": invites.move_to_new_device(invite)}
    response.set_cookie(
        COOKIE,
        signing.dumps(value, salt=_SALT),
        expires=invite.expires_at,
        secure=settings.SESSION_COOKIE_SECURE,
        httponly=True,
        samesite="Lax",
    )


def uses(request: HttpRequest, invite: Invite) -> bool:
    """This browser does, and no other has taken it over."""
    cookie = _cookie(request)
    return cookie.get("invite") == invite.pk and bool(invite.device) and cookie.get("device") == invite.device


def _invited_desk(request: HttpRequest, invite: Invite, agent: str, name: str) -> Desk:
    if reason := invites.why_refused(invite):
        raise Refusal("This invitation is over", reason)
    queue = invite.queue
    if (queue.agent.name, queue.name.lower()) != (agent, name.lower()):
        text = f"Your invitation is for {queue.name} of {queue.agent.name}, and for nothing else here."
        raise Refusal("Not what you are invited to", text, queue=queue)
    if not uses(request, invite):
        text = (
            "Your link was opened in another browser, which goes on with it. Nothing that you have rated here is lost."
        )
        raise Refusal("You go on elsewhere", text, invite=invite)
    return Desk(queue, Rater(invite.rater), EVERYTHING, is_invited=True)


def _invite_in(request: HttpRequest) -> Invite | None:
    pk = _cookie(request).get("invite")
    return Invite.objects.select_related("queue__agent").filter(pk=pk).first() if isinstance(pk, int) else None


def _cookie(request: HttpRequest) -> dict[str, object]:
    try:
        return dict(signing.loads(request.COOKIES.get(COOKIE, ""), salt=_SALT))
    except signing.BadSignature:
        return {}
