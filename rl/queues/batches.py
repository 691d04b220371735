"""Several votes of one rater in one transaction, with as many statements as one vote takes.

That is for ratings and skips of different items that are his for sure; whatever else is among them, such as a correction,
each is decided alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from django.db import DataError, IntegrityError, transaction

from rl.base.errors import RatchetError
from rl.collect.feedback.events import rating
from rl.collect.feedback.write import record_or_raise
from rl.models import Claim, Feedback, RatingQueue
from rl.queues.decisions import (
    CHANGED,
    SCALES,
    Rater,
    TagsOf,
    decide,
    is_known,
    is_safe,
    new_opinion,
    note,
    on_scale,
    own_claims,
    refuse_claim,
    require_undecided,
    said_by,
)
from rl.queues.votes import Vote

Outcome = Claim | RatchetError
_State = Claim.State


def decide_all(queue: RatingQueue, rater: Rater, votes: Sequence[Vote], tags_of: TagsOf) -> list[Outcome]:
    """What ``decide`` returns for each in turn, or the RatchetError that it raises."""
    if not votes:
        return []
    try:
        with transaction.atomic():
            together = _decide_together(queue, rater, votes, tags_of) if _may_be_together(queue, votes) else None
    except (DataError, IntegrityError, RatchetError):  # because of some of them
        together = None
    return together or [_decide_alone(queue, rater, vote, tags_of) for vote in votes]


def _may_be_together(queue: RatingQueue, votes: Sequence[Vote]) -> bool:
    is_each_of_another_item = len({vote.claim for vote in votes}) == len(votes)
    are_plain = all(vote.action != "undo" and not vote.text for vote in votes)
    return is_each_of_another_item and queue.rubric in SCALES and are_plain


def _decide_alone(queue: RatingQueue, rater: Rater, vote: Vote, tags_of: TagsOf) -> Outcome:
    try:
        return decide(queue, rater, vote, tags_of)
    except RatchetError as error:
        return error


@dataclass(slots=True)
class _Batch:
    rater: Rater
    tags_of: TagsOf
    events: dict[int, Feedback] = field(default_factory=dict)
    """Number of the claim to the rating that is to be stored."""
    changed: dict[int, Claim] = field(default_factory=dict)

    def take(self, claim: Claim, vote: Vote) -> None:
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


def _decide_together(queue: RatingQueue, rater: Rater, votes: Sequence[Vote], tags_of: TagsOf) -> list[Outcome] | None:
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
