"""A person's vote on two answers to his question: a comparison of their traces, and what came of both."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from django.contrib.auth.models import User
from django.db import transaction

from rl.base.errors import UsageError
from rl.base.names import require_known
from rl.collect.feedback.write import compare, correct, retract
from rl.models import AnswerPair, Deployment, Feedback, Trace, version_name
from rl.models.queues import NOT_BLIND
from rl.web.pages.rating_form import find_trace

SOURCE: Final = "try_page"
CHOICES: Final = {
    "a": Feedback.Choice.LEFT,
    "b": Feedback.Choice.RIGHT,
    "tie": Feedback.Choice.TIE,
    "both_bad": Feedback.Choice.BOTH_BAD,
}


@dataclass(frozen=True, slots=True)
class Voter:
    rater: str
    user: User

    def common(self) -> dict[str, Any]:
        return {"rater": self.rater, "source": SOURCE, "user": self.user}


def vote(pair: AnswerPair, choice: str, voter: Voter) -> None:
    """The newest one counts. Raises UsageError."""
    require_known("choice", choice, CHOICES)
    left, right = traces_of(pair)
    with transaction.atomic():
        AnswerPair.objects.select_for_update().get(pk=pair.pk)
        earlier = list(_comparisons(pair, voter))
        standing = [event for event in earlier if event.is_current]
        if [event.choice for event in standing] == [CHOICES[choice]]:
            return
        _retract(standing, voter)
        tags = [NOT_BLIND] if earlier else []
        compare(left, right, choice=CHOICES[choice], tags=tags, **voter.common())


def take_back(pair: AnswerPair, voter: Voter) -> None:
    """With what he wrote in the place of an answer."""
    with transaction.atomic():
        _retract([event for event in _comparisons(pair, voter) if event.is_current], voter)
        _retract(_corrections(pair, voter), voter)


def edit(pair: AnswerPair, text: str, voter: Voter) -> None:
    """What the better answer should have been; the left one's place where neither is better. Raises UsageError."""
    with transaction.atomic():
        AnswerPair.objects.select_for_update().get(pk=pair.pk)
        standing = next((event for event in _comparisons(pair, voter) if event.is_current), None)
        if standing is None:
            raise UsageError("say first which answer is better")
        trace = traces_of(pair)[standing.choice == Feedback.Choice.RIGHT]
        _retract([event for event in _corrections(pair, voter) if event.text != text], voter)
        correct(trace, text=text, **voter.common())


def traces_of(pair: AnswerPair) -> tuple[Trace, Trace]:
    """Left and right. Raises UsageError where one has not come."""
    return find_trace(pair.agent, pair.left_id), find_trace(pair.agent, pair.right_id)


def reveal(pair: AnswerPair) -> list[dict[str, Any]]:
    """Who gave the answers, A first."""
    champion = Deployment.champion(pair.agent)
    return [
        {
            "version": version_name(trace.model_version),
            "in_use": trace.model_version == champion,
            "words": len(trace.response.split()),
        }
        for trace in traces_of(pair)
    ]


def _comparisons(pair: AnswerPair, voter: Voter) -> Iterable[Feedback]:
    kind = Feedback.Kind.COMPARISON
    return Feedback.objects.filter(
        trace=pair.left_id, other_trace=pair.right_id, rater=voter.rater, kind=kind, source=SOURCE
    ).select_related("trace")


def _corrections(pair: AnswerPair, voter: Voter) -> Iterable[Feedback]:
    kind, both = Feedback.Kind.CORRECTION, (pair.left_id, pair.right_id)
    rows = Feedback.objects.filter(trace__in=both, rater=voter.rater, kind=kind, source=SOURCE, is_current=True)
    return rows.select_related("trace")


def _retract(events: Iterable[Feedback], voter: Voter) -> None:
    for event in events:
        retract(event, **voter.common())
