"""One rater at work on one queue: what the pages and the script of the rating page share. Who may: people who are signed in
and have the permission, and whoever has an invitation to it, which has a signed cookie of its own that opens its queue and
nothing else of the site."""

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, Final

from django.conf import settings
from django.contrib.auth.models import User
from django.core import signing
from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.db.models import Q
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.utils.translation import gettext

from rl.base.errors import RatchetError, UsageError
from rl.collect.feedback.answer_forms import AnswerForm, find_form
from rl.models import Agent, Claim, Invite, QuestionStart, RatingQueue
from rl.online_learner import OnlineLearner
from rl.queues.claims import MOST, next_claims, read_claims, take_claims
from rl.queues.decisions import Outcome, Rater, decide, decide_all
from rl.queues.editing import move_to_new_device, queue_of, token_of, why_refused
from rl.queues.votes import QueueVote, last_decisions, progress
from rl.web.pages.guards import rater_of
from rl.web.rating_filters import EVERYTHING, Selection
from rl.web.rating_items import decision_of, items_of, names_of_sides, tags_for

AT_ONCE = 20
"""Decisions in a request."""
AHEAD = 3
"""Items that a page gets at once."""


@dataclass(frozen=True, slots=True)
class Desk:
    queue: RatingQueue
    rater: Rater
    selection: Selection
    is_invited: bool = False
    """Versions are not named to him, not even after his decision."""

    def decide(self, vote: QueueVote) -> Claim:
        """Raises RatchetError."""
        return decide(self.queue, self.rater, vote, partial(tags_for, self.queue))

    def answer(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """To the script: a result for each decision, and what comes next. Raises UsageError for a request that is not one;
        what is wrong with a single decision stands in its result."""
        decisions, holding, want = given.get("decisions", []), given.get("holding", []), given.get("want", AHEAD)
        if not isinstance(decisions, list) or len(decisions) > AT_ONCE:
            raise UsageError(f"decisions: a list of at most {AT_ONCE} is wanted")
        if not isinstance(holding, list) or len(holding) > MOST or not all(map(_is_number, holding)):
            raise UsageError(f"holding: a list of at most {MOST} numbers of claims is wanted")
        if not _is_number(want) or not 0 <= want <= MOST:
            raise UsageError(f"want: a whole number from 0 to {MOST} is wanted")
        with transaction.atomic() if decisions else nullcontext():  # who writes once waits once
            votes: list[QueueVote | RatchetError] = []
            for decision in decisions:
                try:
                    votes.append(QueueVote.read(decision))
                except RatchetError as error:
                    votes.append(error)
            readable = [vote for vote in votes if isinstance(vote, QueueVote)]
            outcomes = iter(decide_all(self.queue, self.rater, readable, partial(tags_for, self.queue)))
            decided = [next(outcomes) if isinstance(vote, QueueVote) else vote for vote in votes]
            results = [self._result(decision, outcome) for decision, outcome in zip(decisions, decided, strict=True)]
            keys = take_claims(self.queue, self.rater.name, want, holding, self._wanted, bool(decisions))
        return {"results": results, **self.state(read_claims(self.queue, self.rater.name, keys), self.form())}

    def claim(self) -> list[Claim]:
        """What comes next."""
        return next_claims(self.queue, self.rater.name, want=AHEAD, wanted=self._wanted)

    def form(self, *, fresh: bool = False) -> AnswerForm | None:
        """By which thumbs become corrections; as ``find_form``."""
        return find_form(self.queue.agent, fresh=fresh) if self.queue.rubric == RatingQueue.Rubric.THUMBS else None

    def state(self, claims: Sequence[Claim], form: AnswerForm | None) -> dict[str, Any]:
        """These items, the values to choose among, how far he is, and what he decided last."""
        decided = list(last_decisions(self.queue, self.rater.name).annotate(question=QuestionStart("trace__prompt")))
        now = progress(self.queue, self.rater.name, self._wanted, decided)
        after = f" · {self._what_comes_next()}" if now.done and now.done >= now.total else ""
        return {
            "items": items_of(claims, self.queue, form),
            "values": list(form.values) if form else [],
            "progress": {**asdict(now), "text": now.text + after},
            "decisions": [decision_of(claim, self.queue) for claim in decided],
        }

    def _what_comes_next(self) -> str:
        """To whoever has finished the queue: what happens with the ratings."""
        if self.is_invited:
            return gettext("all done, thank you")
        learner = OnlineLearner(self.queue.agent).get_status(survey=False)
        if learner.is_training:
            return gettext("a training is running; what came since it began waits for the next one")
        itself = gettext("ratings that wait for the next training: {waiting}; it starts by itself at {needed}")
        by_hand = gettext("ratings that wait for the next training: {waiting}; start it by hand")
        return (itself if learner.enabled else by_hand).format(waiting=learner.buffer_size, needed=learner.min_samples)

    @property
    def _wanted(self) -> Q | None:
        return self.selection.condition() if self.selection.values else None

    def _result(self, given: object, outcome: Outcome) -> dict[str, Any]:
        key = given.get("id") if isinstance(given, Mapping) else None
        result: dict[str, Any] = {"id": key, "error": None, "feedback": None, "revealed": None}
        if isinstance(outcome, RatchetError):
            return {**result, "error": str(outcome)}
        revealed = None if self.is_invited else names_of_sides(outcome)
        return {**result, "feedback": outcome.feedback_id, "revealed": revealed}


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63


MAY_RATE = "rl.add_feedback"
COOKIE: Final = "ratchet_invite"
_SALT: Final = "rl.web.rating_access"


@dataclass(slots=True)
class InvitationRefusal(Exception):
    """Why an invitation does not open this page, or not yet; ``invite``: it would, if this browser took it (over)."""

    title: str
    text: str
    invite: Invite | None = None
    queue: RatingQueue | None = None
    """The one that the invitation is for, where that is another."""
    button: str = ""

    @property
    def token(self) -> str:
        return token_of(self.invite) if self.invite else ""


def open_desk(request: HttpRequest, agent: str, name: str) -> Desk | None:
    """None: he must sign in first. Raises InvitationRefusal, PermissionDenied and Http404."""
    if isinstance(request.user, User) and request.user.has_perm(MAY_RATE):
        queue = queue_of(get_object_or_404(Agent, name=agent), name)
        if queue is None:
            raise Http404(f"agent {agent} has no queue {name}")
        rater = Rater(rater_of(request.user.get_username()), request.user)
        return Desk(queue, rater, Selection.read(request.GET))
    pk = _cookie(request).get("invite")
    known = Invite.objects.select_related("queue__agent")
    if isinstance(pk, int) and (invite := known.filter(pk=pk).first()):
        if reason := why_refused(invite):
            raise InvitationRefusal(gettext("This invitation is over"), reason)
        theirs = invite.queue
        if (theirs.agent.name, theirs.name.lower()) != (agent, name.lower()):
            text = gettext("Your invitation is for {queue} of {agent}, and for nothing else here.")
            text = text.format(queue=theirs.name, agent=theirs.agent.name)
            raise InvitationRefusal(gettext("Not what you are invited to"), text, queue=theirs)
        if not uses(request, invite):
            text = gettext(
                "Your link was opened in another browser, which goes on with it. "
                "Nothing that you have rated here is lost."
            )
            raise InvitationRefusal(gettext("You go on elsewhere"), text, invite=invite)
        return Desk(theirs, Rater(invite.rater), EVERYTHING, is_invited=True)
    if request.user.is_authenticated:
        raise PermissionDenied(gettext("You are signed in, but nobody has given you the permission to rate answers."))
    return None


def let_in(response: HttpResponse, invite: Invite) -> None:
    """Makes this browser the one that uses the invitation."""
    value = {"invite": invite.pk, "device": move_to_new_device(invite)}
    response.set_cookie(
        COOKIE,
        signing.dumps(value, salt=_SALT),
        expires=invite.expires_at,
        path=settings.SESSION_COOKIE_PATH,
        secure=settings.SESSION_COOKIE_SECURE,
        httponly=True,
        samesite="Lax",
    )


def uses(request: HttpRequest, invite: Invite) -> bool:
    """This browser does, and no other has taken it over."""
    cookie = _cookie(request)
    return cookie.get("invite") == invite.pk and bool(invite.device) and cookie.get("device") == invite.device


def _cookie(request: HttpRequest) -> dict[str, object]:
    try:
        return dict(signing.loads(request.COOKIES.get(COOKIE, ""), salt=_SALT))
    except signing.BadSignature:
        return {}
