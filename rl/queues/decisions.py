"""What becomes of votes: feedback where the item is a real one, and the claim's new state. One transaction each.

Several of one rater are decided in one transaction, with as many statements as one vote takes, where they are ratings and
skips of different items that are his for sure; whatever else is among them, such as a correction, each is decided alone."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, NoReturn

from django.contrib.auth.models import AbstractBaseUser
from django.db import DataError, IntegrityError, transaction
from django.utils import timezone

from rl.base.errors import RatchetError, UsageError
from rl.collect.feedback.events import rating
from rl.collect.feedback.write import Rated, compare, correct, rate, record_or_raise, retract
from rl.config.rubrics import ASKED
from rl.models import Claim, Feedback, RatingQueue, Trace
from rl.queues.claims import is_lost, lock_end, lock_for_claims
from rl.queues.items import sides_of
from rl.queues.votes import QueueVote

SOURCE = "rating_page"
_MARGIN = timedelta(seconds=5)
"""A lock that ends so soon may end before the vote is stored."""
_LARGE = ("prompt", "tool_calls", "reasoning_steps", "tasks", "state", "action")
"""Columns of an answer that a decision does not need."""
_EARLIER = 20
"""Ids of decisions that a claim remembers."""
_State = Claim.State
TagsOf = Callable[[Trace], Collection[str]]
_DECIDED = "you have decided this item already; undo that first"
_TAKEN = "your time for this item was over and somebody else has it now; your decision was not saved"


@dataclass(frozen=True, slots=True)
class Rater:
    name: str
    user: AbstractBaseUser | None = None


def decide(queue: RatingQueue, rater: Rater, vote: QueueVote, tags_of: TagsOf) -> Claim:
    """The claim as it is then; a vote whose id is known already changes nothing.

    ``tags_of``: the tags that are offered for an answer beside the queue's own. Raises UsageError, and nothing is stored,
    where the claim is not this rater's, others have the item meanwhile, or the vote is not what the queue asks for."""
    try:
        with transaction.atomic():
            claim = _own_claim(queue, rater, vote)
            if queue.raters_per_item is None or is_safe(claim):
                return _act(claim, rater, vote, tags_of)
        with transaction.atomic():  # nobody takes the item meanwhile; a queue is always locked before its claims
            lock_for_claims(queue)
            return _act(_own_claim(queue, rater, vote), rater, vote, tags_of)
    except IntegrityError as error:
        if "decision" not in str(error):
            raise
        raise UsageError(f"id: the decision {vote.id} is stored already, for another item") from None


def _own_claim(queue: RatingQueue, rater: Rater, vote: QueueVote) -> Claim:
    return own_claims(queue, rater.name, [vote.claim]).get(vote.claim) or refuse_claim(vote.claim)


def _act(claim: Claim, rater: Rater, vote: QueueVote, tags_of: TagsOf) -> Claim:
    if is_known(vote, claim):
        return claim
    if vote.action == "rate":
        _rate(claim, rater, vote, tags_of)
    elif vote.action == "skip":
        require_undecided(claim)
        _save(claim, vote, _State.SKIPPED)
    else:
        _undo(claim, rater, vote)
    return claim


def is_safe(claim: Claim) -> bool:
    """Nobody else can have the item, and none will before a vote is stored."""
    return claim.state == _State.DECIDED or claim.expires_at > timezone.now() + _MARGIN


def own_claims(queue: RatingQueue, rater: str, keys: Collection[int]) -> dict[int, Claim]:
    """Locked, with their answers, but for what may be megabytes: on SQLite all who write wait meanwhile."""
    sides = sides_of(queue)
    rows = Claim.objects.filter(queue=queue, rater=rater, pk__in=keys).select_related(*sides).order_by("pk")
    rows = rows.defer(*(f"{side}__{column}" for side in sides for column in _LARGE))
    claims = {claim.pk: claim for claim in rows.select_for_update(of=("self",), no_key=True)}
    for claim in claims.values():
        claim.queue = queue
    return claims


def refuse_claim(pk: int) -> NoReturn:
    raise UsageError(f"claim: {pk} is not an item of yours in this queue; the answer may have been deleted")


def is_known(vote: QueueVote, claim: Claim) -> bool:
    return str(vote.id) in claim.decision.get("ids", ())


def new_opinion(claim: Claim, vote: QueueVote, tags_of: TagsOf) -> dict[str, Any] | None:
    """None: he has said just this. Raises UsageError for a vote that the queue does not ask for, and where he has said
    something else."""
    opinion = vote.opinion(claim, [*claim.queue.tags, *tags_of(claim.trace)])
    if claim.state != _State.DECIDED:
        return opinion
    if all(claim.decision.get(name) == value for name, value in opinion.items()):
        return None
    raise UsageError(_DECIDED)


def _rate(claim: Claim, rater: Rater, vote: QueueVote, tags_of: TagsOf) -> None:
    opinion = new_opinion(claim, vote, tags_of)
    if opinion is None:
        return
    _require_untaken(claim)
    claim.feedback = _write(claim, opinion, said_by(rater, vote)).event if claim.purpose == Claim.Purpose.ITEM else None
    _save(claim, vote, _State.DECIDED, opinion)


def _undo(claim: Claim, rater: Rater, vote: QueueVote) -> None:
    if claim.state == _State.CLAIMED:
        raise UsageError("there is nothing to undo: you have not decided this item")
    _require_untaken(claim)
    if claim.feedback is not None:
        retract(claim.feedback, rater=rater.name, source=SOURCE, user=rater.user)
        claim.feedback = None
    _save(claim, vote, _State.CLAIMED)


def require_undecided(claim: Claim) -> None:
    if claim.state == _State.DECIDED:
        raise UsageError(_DECIDED)


def _require_untaken(claim: Claim) -> None:
    if claim.state == _State.DECIDED or (claim.state == _State.CLAIMED and claim.expires_at > timezone.now()):
        return
    if Claim.objects.filter(is_lost(claim.queue, claim.rater), pk=claim.pk).exists():
        raise UsageError(_TAKEN)


def said_by(rater: Rater, vote: QueueVote) -> dict[str, Any]:
    """What all feedback says beside the opinion itself."""
    by = {"rater": rater.name, "tags": list(vote.tags), "notes": vote.notes, "rated_at": vote.at}
    return {**by, "source": SOURCE, "user": rater.user}


def _write(claim: Claim, opinion: dict[str, Any], by: dict[str, Any]) -> Rated:
    if "choice" in opinion:
        if claim.other_trace is None:
            raise UsageError("this item has one answer only: there is nothing to compare")
        return compare(claim.trace, claim.other_trace, choice=opinion["choice"], **by)
    if "text" in opinion:
        return correct(claim.trace, text=opinion["text"], **by)
    return rate(claim.trace, **on_scale(claim.queue, opinion["value"]), **by)


def on_scale(queue: RatingQueue, value: float) -> dict[str, Any]:
    """``scale`` and ``value`` as a rating has them."""
    scale = ASKED[queue.rubric].scale
    return {"scale": scale, "value": round(value * 4) + 1 if scale == Feedback.Scale.STARS else value}


CHANGED = ("state", "decision_id", "decision", "decided_at", "expires_at", "feedback")


def note(claim: Claim, vote: QueueVote, state: Claim.State, opinion: dict[str, Any] | None = None) -> None:
    """Changes the fields CHANGED and stores nothing. A lost answer makes a browser send the last votes again, so their ids
    are kept."""
    ids = [*claim.decision.get("ids", ()), str(vote.id)][-_EARLIER:]
    claim.state, claim.decision_id, claim.decision = state, vote.id, {**(opinion or {}), "ids": ids}
    claim.decided_at = None if state == _State.CLAIMED else timezone.now()
    if state == _State.CLAIMED:
        claim.expires_at = lock_end(claim.queue)


def _save(claim: Claim, vote: QueueVote, state: Claim.State, opinion: dict[str, Any] | None = None) -> None:
    note(claim, vote, state, opinion)
    claim.save(update_fields=CHANGED)


Outcome = Claim | RatchetError


def decide_all(queue: RatingQueue, rater: Rater, votes: Sequence[QueueVote], tags_of: TagsOf) -> list[Outcome]:
    """What ``decide`` returns for each in turn, or the RatchetError that it raises."""
    if not votes:
        return []
    try:
        with transaction.atomic():
            if outcomes := _decide_together(queue, rater, votes, tags_of):
                return outcomes
    except (DataError, IntegrityError, RatchetError):  # because of some of them
        pass
    outcomes = []
    for vote in votes:
        try:
            outcomes.append(decide(queue, rater, vote, tags_of))
        except RatchetError as error:
            outcomes.append(error)
    return outcomes


@dataclass(slots=True)
class _Batch:
    rater: Rater
    tags_of: TagsOf
    events: dict[int, Feedback] = field(default_factory=dict)
    """Number of the claim to the rating that is to be stored."""
    changed: dict[int, Claim] = field(default_factory=dict)

    def take(self, claim: Claim, vote: QueueVote) -> None:
        """Raises RatchetError, and the claim is as it was."""
        if is_known(vote, claim):
            return
        if vote.action == "skip":
            require_undecided(claim)
            note(claim, vote, _State.SKIPPED)
        else:
            opinion = new_opinion(claim, vote, self.tags_of)
            if opinion is None:
                return
            if claim.purpose == Claim.Purpose.ITEM:
                scaled = on_scale(claim.queue, opinion["value"])
                self.events[claim.pk] = rating(claim.trace, **scaled, **said_by(self.rater, vote))
            claim.feedback = None
            note(claim, vote, _State.DECIDED, opinion)
        self.changed[claim.pk] = claim

    def store(self) -> None:
        """Raises what any of the ratings raises."""
        for pk, event in zip(self.events, record_or_raise([*self.events.values()]), strict=True):
            self.changed[pk].feedback = event
        if len(self.changed) > 1:
            Claim.objects.bulk_update(self.changed.values(), CHANGED)
        for claim in self.changed.values() if len(self.changed) == 1 else ():  # four times as fast
            claim.save(update_fields=CHANGED)


def _decide_together(
    queue: RatingQueue, rater: Rater, votes: Sequence[QueueVote], tags_of: TagsOf
) -> list[Outcome] | None:
    """None where they may not be."""
    are_plain = all(vote.action != "undo" and not vote.text for vote in votes)
    if len({vote.claim for vote in votes}) < len(votes) or not ASKED[queue.rubric].scale or not are_plain:
        return None
    claims = own_claims(queue, rater.name, [vote.claim for vote in votes])
    if any(claim.state == _State.SKIPPED or not is_safe(claim) for claim in claims.values()):
        return None
    batch = _Batch(rater, tags_of)
    outcomes: list[Outcome] = []
    for vote in votes:
        try:
            claim = claims.get(vote.claim) or refuse_claim(vote.claim)
            batch.take(claim, vote)
            outcomes.append(claim)
        except RatchetError as error:
            outcomes.append(error)
    batch.store()
    return outcomes
