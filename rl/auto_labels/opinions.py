"""What people think of an agent's answers, as a judge learns from it: the newest labels and preferences.

An answer's label is good where the mean of its ratings lies above the middle, and bad below it. A preference is a
side-by-side pick of two answers to one prompt, or an edited answer, which is better than what it was made from.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from django.db.models import Avg, Count, F, Max, Q, QuerySet

from rl.base.ratings import Vote
from rl.judge.labels import MOST_ROWS, Answers, Opinion
from rl.models import Agent, Feedback, Trace, prompt_key
from rl.models.traces import may_be_used

MOST_WEIGHT = 3
"""What a label weighs at most: so many raters more on its side than on the other. More of them say no more about others."""


def read_opinions(agent: Agent, answers: Answers) -> list[Opinion]:
    """MOST_ROWS at most, half of them preferences where both are many; their answers are added. Each opinion's prompt is
    the hash of its words."""
    ratings, events = list(_find_labels(agent)[:MOST_ROWS]), list(_find_preferences(agent)[:MOST_ROWS])
    events = events[: max(MOST_ROWS // 2, MOST_ROWS - len(ratings))]
    labels = _labels(ratings[: MOST_ROWS - len(events)], answers)
    return [*labels, *_preferences(events, answers)]


def _find_labels(agent: Agent) -> QuerySet[Any, Any]:
    """One row for each trace, the newest first; without those whose mean is the middle."""
    ratings = Feedback.objects.filter(
        may_be_used("trace__"), agent=agent, kind=Feedback.Kind.RATING, is_current=True
    ).order_by()
    above, below = (Count("pk", filter=half) for half in (Q(value__gt=0.5), Q(value__lt=0.5)))
    means = ratings.values("trace").annotate(mean=Avg("value"), above=above, below=below, newest=Max("pk"))
    return means.exclude(mean=0.5).order_by("-newest")


def _labels(ratings: Iterable[Mapping[str, Any]], answers: Answers) -> Iterator[Opinion]:
    by_trace = {row["trace"]: row for row in ratings}
    votes = _votes(by_trace)
    for trace in Trace.objects.filter(pk__in=by_trace).only("prompt", "response").order_by("pk"):
        row = by_trace[trace.pk]
        weight = min(max(abs(row["above"] - row["below"]), 1), MOST_WEIGHT)
        number = answers.add(trace.prompt, trace.response)
        good = row["mean"] > 0.5
        own = tuple(Vote(vote.rater, vote.agrees == good) for vote in votes[trace.pk])
        yield Opinion(number, None, float(good), weight, prompt_key(trace.prompt), own)


def _votes(traces: Iterable[Any]) -> Mapping[Any, list[Vote]]:
    """For and against the answer, by trace."""
    votes: defaultdict[Any, list[Vote]] = defaultdict(list)
    ratings = Feedback.objects.filter(trace__in=traces, kind=Feedback.Kind.RATING, is_current=True).exclude(value=0.5)
    for trace, rater, value in ratings.order_by("pk").values_list("trace", "rater", "value"):
        votes[trace] += [] if value is None else [Vote(rater, value > 0.5)]
    return votes


def _find_preferences(agent: Agent) -> QuerySet[Feedback]:
    """The newest first."""
    picks = Q(kind=Feedback.Kind.COMPARISON, choice__in=(Feedback.Choice.LEFT, Feedback.Choice.RIGHT))
    picks &= Q(other_trace__prompt_key=F("trace__prompt_key"))
    events = Feedback.objects.filter(picks | Q(kind=Feedback.Kind.CORRECTION), agent=agent, is_current=True)
    events = events.filter(may_be_used("trace__"), Q(other_trace=None) | may_be_used("other_trace__"))
    texts = ("trace__prompt", "trace__response", "other_trace__response")
    return events.order_by("-pk").select_related("trace", "other_trace").only("kind", "choice", "text", "rater", *texts)


def _preferences(events: Iterable[Feedback], answers: Answers) -> Iterator[Opinion]:
    for event in events:
        prompt, (better, worse) = event.trace.prompt, _sides(event)
        if better.strip() and better != worse:
            numbers = answers.add(prompt, better), answers.add(prompt, worse)
            yield Opinion(*numbers, prompt=prompt_key(prompt), votes=(Vote(event.rater, True),))


def _sides(event: Feedback) -> tuple[str, str]:
    """The better text and the worse one."""
    left = event.trace.response
    if event.kind == Feedback.Kind.CORRECTION:
        return event.text, left
    right = event.other_trace.response if event.other_trace else ""
    return (left, right) if event.choice == Feedback.Choice.LEFT else (right, left)
