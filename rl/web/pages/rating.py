"""One screen, one item, one decision. A plain form; with JavaScript decisions go to an address that answers in JSON."""

import json
import uuid
from typing import Any

from django.contrib.auth.decorators import login_required, permission_required
from django.contrib.auth.views import redirect_to_login
from django.core.exceptions import PermissionDenied
from django.db.models import Exists, OuterRef
from django.http import HttpRequest, HttpResponse, JsonResponse, QueryDict
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from rl.base.errors import RatchetError, UsageError
from rl.config.rubrics import ASKED
from rl.models import Agent, Claim, RatingQueue, Trace
from rl.queues.editing import ANSWERS, gold_of, invite_of, make_gold, open_queues, why_refused
from rl.queues.votes import QueueVote, count_waiting, last_decisions
from rl.web.agent_search import AgentSearch
from rl.web.pages.guards import rater_of, show_problem
from rl.web.rating_desk import MAY_RATE, Desk, InvitationRefusal, let_in, open_desk, uses
from rl.web.rating_items import shown_sides, tags_for
from rl.web.tastes import describe_tastes
from rl.web.trace_page import trace_context

AGENTS = 12
"""On a page: to count what waits in the queues of one takes some milliseconds."""
MAY_CHANGE = "rl.change_ratingqueue"


@require_safe
@never_cache
@login_required
@permission_required(MAY_RATE, raise_exception=True)
def choose_queue(request: HttpRequest) -> HttpResponse:
    """One queue with answers needs no choice, but of somebody who may change it: the way to its settings is here."""
    search, answers = AgentSearch.of(request), Trace.objects.filter(agent=OuterRef("pk")).exclude(response="")
    rated = Agent.objects.filter(Exists(answers.order_by()), name__icontains=search.find)
    agents = list(rated[(search.page - 1) * AGENTS : search.page * AGENTS + 1])
    listed = search.describe(has_more=len(agents) > AGENTS, is_long=len(agents) > AGENTS)
    queues = open_queues(agents[:AGENTS])
    every = [queue for of_agent in queues.values() for queue in of_agent]
    waiting = count_waiting(every, rater_of(request.user.get_username()))
    possible = [queue for queue in every if waiting[queue.pk].has_any or queue.name == ANSWERS]
    if len(possible) == 1 and not listed["is_long"] and not request.user.has_perm(MAY_CHANGE):
        return redirect(_address(possible[0]))
    rows = {
        agent: [{"queue": queue, "address": _address(queue), "waiting": waiting[queue.pk]} for queue in of_agent]
        for agent, of_agent in queues.items()
    }
    choices = [{"agent": agent, "queues": of_agent} for agent, of_agent in rows.items()]
    return render(request, "rl/rate_choose.html", {"page": "rate", "choices": choices, "agents": agents, **listed})


@require_http_methods(["GET", "HEAD", "POST"])
@never_cache
def rate_items(request: HttpRequest, name: str, queue: str = ANSWERS) -> HttpResponse:
    try:
        desk = open_desk(request, name, queue)
    except InvitationRefusal as refusal:
        return refuse(request, refusal)
    if desk is None:
        return redirect_to_login(request.get_full_path())
    back = _address(desk.queue) + desk.selection.query
    if request.method != "POST":
        claims = desk.claim()
        trace = claims[0].trace if claims else None
        context: dict[str, Any] = {
            "page": "rate",
            "agent": desk.queue.agent,
            "queue": desk.queue,
            "rater": desk.rater.name,
            **desk.state(claims, desk.form(fresh=True)),
            "is_invited": desk.is_invited,
            "tastes": [] if desk.is_invited else describe_tastes(desk.queue.agent, desk.rater.name),
            "filters": [] if desk.is_invited else desk.selection.form(desk.queue.agent, trace),
            "is_filtered": bool(desk.selection.values),
            "tags": tags_for(desk.queue, trace),
            "points": [f"{value:g}" for value in ASKED[desk.queue.rubric].values],
        }
        return render(request, "rl/rate.html", context)
    try:
        desk.decide(_posted_vote(desk, request.POST))
    except RatchetError as error:
        return show_problem(request, "rate", back, error)
    return redirect(back)


@require_POST
@never_cache
def store_decisions(request: HttpRequest, name: str, queue: str) -> HttpResponse:
    """What is refused stays in the browser, which sends it again."""
    try:
        desk = open_desk(request, name, queue)
        if desk is None:
            return JsonResponse({"error": _("You are signed out: sign in again, then this is sent.")}, status=401)
        try:
            given = json.loads(request.body)
        except (ValueError, RecursionError):
            raise UsageError("the request's body must be JSON") from None
        if not isinstance(given, dict):
            raise UsageError("the request's body must be an object")
        return JsonResponse(desk.answer(given))
    except InvitationRefusal as refusal:
        return JsonResponse({"error": f"{refusal.title}. {refusal.text}"}, status=403)
    except RatchetError as error:
        return JsonResponse({"error": str(error)}, status=400)


@require_http_methods(["GET", "HEAD", "POST"])
@never_cache
@login_required
@permission_required([MAY_RATE, "rl.view_trace"], raise_exception=True)
def what_happened(request: HttpRequest, name: str, queue: str, claim: int) -> HttpResponse:
    """All that the agent did, and nothing of what others think of it. A POST makes one's own decision the right answer."""
    desk = open_desk(request, name, queue)
    if desk is None:
        return redirect_to_login(request.get_full_path())
    rows = Claim.objects.select_related("trace__agent", "trace__episode", "other_trace__agent", "other_trace__episode")
    mine = get_object_or_404(rows, pk=claim, queue=desk.queue, rater=desk.rater.name)
    mine.queue = desk.queue
    if request.method == "POST":
        if not request.user.has_perm(MAY_CHANGE):
            raise PermissionDenied(_("Gold items are made by those who may change rating queues."))
        try:
            make_gold(mine, mine.rater)
        except UsageError as error:
            return show_problem(request, "rate", request.path, error)
        return redirect(request.path)
    hidden: dict[str, Any] = {"events": [], "proposal": None, "follow_up": None}
    context = {
        "page": "rate",
        "agent": desk.queue.agent,
        "queue": desk.queue,
        "sides": [{**trace_context(side), **hidden} for side in shown_sides(mine)],
        "may_make_gold": request.user.has_perm(MAY_CHANGE) and mine.state == Claim.State.DECIDED,
        "gold": gold_of(mine),
    }
    return render(request, "rl/rate_happened.html", context)


def _posted_vote(desk: Desk, posted: QueryDict) -> QueueVote:
    """``claim`` may be left out of an undo: then it is the last decision. Raises UsageError."""
    fields: dict[str, Any] = {name: posted[name] for name in ("action", "choice", "text", "notes") if posted.get(name)}
    claim = str(posted.get("claim", ""))
    if fields.get("action") == "undo" and not claim:
        last = last_decisions(desk.queue, desk.rater.name).first()
        if last is None:
            raise UsageError(_("there is nothing to undo"))
        claim = str(last.pk)
    if not (claim.isascii() and claim.isdecimal()):
        raise UsageError("claim: the number of an item is wanted")
    if posted.get("value"):  # a thumb that was pressed goes before the answer beside it
        try:
            fields["value"] = float(str(posted["value"]))
        except ValueError:
            raise UsageError(f"value: a number from 0 to 1 is wanted, not {str(posted['value'])!r:.80}") from None
        fields.pop("text", None)
    if "text" in fields:  # browsers send lines with CR LF
        fields["text"] = fields["text"].replace("\r\n", "\n")
    return QueueVote.read({**fields, "id": str(uuid.uuid4()), "claim": int(claim), "tags": posted.getlist("tags")})


def _address(queue: RatingQueue) -> str:
    if queue.name == ANSWERS:
        return reverse("rate_agent", args=[queue.agent.name])
    return reverse("rate_queue", args=[queue.agent.name, queue.name])


_UNKNOWN = gettext_noop(
    "This link is not complete, or was not made here. Copy it whole from the message that it came with."
)
_ELSEWHERE = gettext_noop(
    "Your link is in use in another browser, perhaps on another device. It can go on here instead; nothing is lost."
)
_UNUSED = gettext_noop("You can rate answers without an account. The link then belongs to this browser.")


@require_http_methods(["GET", "HEAD", "POST"])
@never_cache
def follow_link(request: HttpRequest, token: str) -> HttpResponse:
    """A GET changes nothing, because mail programs and chats open links to preview them. A POST makes this browser the one
    that uses the invitation."""
    invite = invite_of(token)
    if invite is None:
        return refuse(request, InvitationRefusal(_("This link opens nothing"), _(_UNKNOWN)), status=404)
    if reason := why_refused(invite):
        return refuse(request, InvitationRefusal(_("This invitation is over"), reason))
    response = redirect("rate_queue", invite.queue.agent.name, invite.queue.name)
    if request.user.has_perm(MAY_RATE) or uses(request, invite):  # a rater of the site rates as himself
        return response
    if request.method == "POST":
        let_in(response, invite)
        return response
    if invite.device:
        return refuse(request, InvitationRefusal(_("Go on in this browser?"), _(_ELSEWHERE), invite=invite), status=409)
    invited = InvitationRefusal(_("You are invited"), _(_UNUSED), invite=invite, button=_("Begin"))
    return refuse(request, invited, status=200)


def refuse(request: HttpRequest, refusal: InvitationRefusal, status: int = 403) -> HttpResponse:
    return render(request, "rl/rate_refusal.html", {"page": "rate", "refusal": refusal}, status=status)
