"""Which raters are right, learned from all of an agent's answers that several people rated."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from django.db.models import Count

from rl.dataset_builder.read.pseudonyms import pseudonym
from rl.models import Agent, Feedback
from rl.models.traces import may_be_used

if TYPE_CHECKING:
    from rl.raters.dawid_skene import Reliability


def learn_reliability(agent: Agent) -> Reliability | None:
    """None where too few answers have enough votes: then all raters count alike."""
    from rl.raters.dawid_skene import LEAST_VOTES, fit  # loads numpy, which the website does not at its start

    rated = Feedback.objects.filter(trace__agent=agent, kind=Feedback.Kind.RATING, is_current=True)
    rated = rated.filter(may_be_used("trace__")).exclude(value=0.5).order_by()
    several = rated.values("trace").annotate(votes=Count("pk")).filter(votes__gte=LEAST_VOTES).values("trace")
    votes: defaultdict[Any, list[tuple[str, bool]]] = defaultdict(list)
    rows = rated.filter(trace__in=several).order_by("trace_id", "pk")
    for trace, rater, value in rows.values_list("trace_id", "rater", "value"):
        votes[trace].append((pseudonym(rater), (value or 0) > 0.5))
    return fit(votes)


def weigh_votes(reliability: Reliability | None, votes: list[tuple[str, bool]]) -> tuple[float, float]:
    """How many say yes and how many no; by a posterior majority where there are enough votes for one."""
    from rl.raters.dawid_skene import LEAST_VOTES

    yes = sum(agrees for _, agrees in votes)
    if reliability is None or len(votes) < LEAST_VOTES:
        return yes, len(votes) - yes
    share = round(reliability.posterior(votes), 4)
    return len(votes) * share, len(votes) * (1 - share)
