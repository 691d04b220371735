"""One rater at work on one queue: what the pages and the script of the rating page share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from typing import Any

from django.db import transaction
from django.db.models import Q

from rl.base.errors import RatchetError, UsageError
from rl.collect.feedback.answer_forms import AnswerForm, find_form
from rl.models import Claim, QuestionStart, RatingQueue, Trace
from rl.online_learner import OnlineLearner
from rl.queues.batches import Outcome, decide_all
from rl.queues.claims import MOST, next_claims, read_claims, take_claims
from rl.queues.decisions import Rater, decide
from rl.queues.progress import last_decisions, progress
from rl.queues.votes import Vote
from rl.web.rating_filters import Selection
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

    def decide(self, vote: Vote) -> Claim:
        """Raises RatchetError."""
        return decide(self.queue, self.rater, vote, self._tags_of)

    def answer(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """To the script: a result for each decision, and what comes next. Raises UsageError for a request that is not one;
        what is wrong with a single decision stands in its result."""
        decisions, holding, want = _read(given)
        with transaction.atomic() if decisions else nullcontext():  # who writes once waits once
            results = self._results(decisions)
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
        after = f" · {self._what_comes_next()}" if now.done and now.is_finished else ""
        return {
            "items": items_of(claims, self.queue, form),
            "values": list(form.values) if form else [],
            "progress": {**asdict(now), "text": now.text + after},
            "decisions": [decision_of(claim, self.queue) for claim in decided],
        }

    def _what_comes_next(self) -> str:
        """To whoever has finished the queue: what happens with the ratings."""
        if self.is_invited:
            return "all done, thank you"
        learner = OnlineLearner(self.queue.agent).get_status(survey=False)
        if learner.is_training:
            return "a training is running; what came since it began waits for the next one"
        waiting = f"ratings that wait for the next training: {learner.buffer_size}"
        return (
            f"{waiting}; it starts by itself at {learner.min_samples}"
            if learner.enabled
            else f"{waiting}; start it by hand"
        )

    @property
    def _wanted(self) -> Q | None:
        return self.selection.condition() if self.selection.values else None

    def _results(self, decisions: Sequence[object]) -> list[dict[str, Any]]:
        votes = [_read_vote(given) for given in decisions]
        readable = [vote for vote in votes if isinstance(vote, Vote)]
        outcomes = iter(decide_all(self.queue, self.rater, readable, self._tags_of))
        decided = [next(outcomes) if isinstance(vote, Vote) else vote for vote in votes]
        return [self._result(given, outcome) for given, outcome in zip(decisions, decided, strict=True)]

    def _result(self, given: object, outcome: Outcome) -> dict[str, Any]:
        key = given.get("id") if isinstance(given, Mapping) else None
        result: dict[str, Any] = {"id": key, "error": None, "feedback": None, "revealed": None}
        if isinstance(outcome, RatchetError):
            return {**result, "error": str(outcome)}
        revealed = None if self.is_invited else names_of_sides(outcome)
        return {**result, "feedback": outcome.feedback_id, "revealed": revealed}

    def _tags_of(self, trace: Trace) -> list[str]:
        return tags_for(self.queue, trace)


def _read_vote(given: object) -> Vote | RatchetError:
    try:
        return Vote.read(given)
    except RatchetError as error:
        return error


def _read(given: Mapping[str, Any]) -> tuple[Sequence[object], list[int], int]:
    decisions, holding, want = given.get("decisions", []), given.get("holding", []), given.get("want", AHEAD)
    if not isinstance(decisions, list) or len(decisions) > AT_ONCE:
        raise UsageError(f"decisions: a list of at most {AT_ONCE} is wanted")
    if not isinstance(holding, list) or len(holding) > MOST or not all(map(_is_number, holding)):
        raise UsageError(f"holding: a list of at most {MOST} numbers of claims is wanted")
    if not _is_number(want) or not 0 <= want <= MOST:
        raise UsageError(f"want: a whole number from 0 to {MOST} is wanted")
    return decisions, holding, want


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63
