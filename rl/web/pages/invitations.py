"""What a link of an invitation opens: its queue, or a page that says why not."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from rl.queues import invites
from rl.web.rating_access import MAY_RATE, Refusal, let_in, uses

_UNKNOWN = "This link is not complete, or was not made here. Copy it whole from the message that it came with."
_ELSEWHERE = (
    "Your link is in use in another browser, perhaps on another device. It can go on here instead; nothing is lost."
)
_UNUSED = "You can rate answers without an account. The link then belongs to this browser."


@require_http_methods(["GET", "HEAD", "POST"])
@never_cache
def follow_link(request: HttpRequest, token: str) -> HttpResponse:
    """A GET changes nothing, because mail programs and chats open links to preview them. A POST makes this browser the one
    that uses the invitation."""
    invite = invites.invite_of(token)
    if invite is None:
        return refuse(request, Refusal("This link opens nothing", _UNKNOWN), status=404)
    if reason := invites.why_refused(invite):
        return refuse(request, Refusal("This invitation is over", reason))
    response = redirect("rate_queue", invite.queue.agent.name, invite.queue.name)
    if request.user.has_perm(MAY_RATE) or uses(request, invite):  # a rater of the site rates as himself
        return response
    if request.method == "POST":
        let_in(response, invite)
        return response
    if invite.device:
        return refuse(request, Refusal("Go on in this browser?", _ELSEWHERE, invite=invite), status=409)
    return refuse(request, Refusal("You are invited", _UNUSED, invite=invite, button="Begin"), status=200)


def refuse(request: HttpRequest, refusal: Refusal, status: int = 403) -> HttpResponse:
    return render(request, "rl/rate_refusal.html", {"page": "rate", "refusal": refusal}, status=status)
