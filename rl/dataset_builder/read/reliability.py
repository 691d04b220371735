"""Who rated, without a name, and which raters are right: learned from all of an agent's answers that several people rated.

Training sets are copied and shared, and nobody should learn from them who somebody is.
"""

from __future__ import annotations

from collections import defaultdict
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from django.db import connection
from django.db.models import Count
from django.utils.crypto import salted_hmac

from rl.models import Agent, Feedback
from rl.models.traces import may_be_used

if TYPE_CHECKING:
    from rl.raters.dawid_skene import Reliability


DIGITS: Final = 12


@lru_cache(maxsize=10_000)
def pseudonym(rater: str) -> str:
    """Hexadecimal; the same in all sets of one installation, and without its key nobody can tell whose. Empty for nobody."""
    return salted_hmac("rl.rater", rater, algorithm="sha256").hexdigest()[:DIGITS] if rater else ""


def learn_reliability(agent: Agent) -> Reliability | None:
    """None where too few answers have enough votes: then all raters count alike."""
    # loads numpy, which the website does not at its start
    from rl.raters.dawid_skene import LEAST_ITEMS, LEAST_VOTES, fit

    if _count_often_rated(LEAST_VOTES, LEAST_ITEMS) < LEAST_ITEMS:
        return None
    rated = Feedback.objects.filter(trace__agent=agent, kind=Feedback.Kind.RATING, is_current=True)
    rated = rated.filter(may_be_used("trace__")).exclude(value=0.5).order_by()
    several = rated.values("trace").annotate(votes=Count("pk")).filter(votes__gte=LEAST_VOTES).values("trace")
    votes: defaultdict[Any, list[tuple[str, bool]]] = defaultdict(list)
    rows = rated.filter(trace__in=several).order_by("trace_id", "pk")
    for trace, rater, value in rows.values_list("trace_id", "rater", "value"):
        votes[trace].append((pseudonym(rater), (value or 0) > 0.5))
    return fit(votes)


def _count_often_rated(votes: int, most: int) -> int:
    """Answers of all agents with so many votes, neutral ones too, up to ``most``: asked of one index alone, because nearly
    everywhere there are too few. Its condition has to stand in the statement as it is, which parameters would not."""
    with connection.cursor() as cursor:
        cursor.execute(_OFTEN_RATED, [votes, most])
        count: int = cursor.fetchone()[0]
    return count


_OFTEN_RATED = """
SELECT count(*) FROM (
    SELECT trace_id FROM rl_feedback WHERE is_current AND kind = 'rating'
    GROUP BY trace_id HAVING count(*) >= %s LIMIT %s
) often
"""


def weigh_votes(reliability: Reliability | None, votes: list[tuple[str, bool]]) -> tuple[float, float]:
    """How many say yes and how many no; by a posterior majority where there are enough votes for one."""
    yes = sum([agrees for _, agrees in votes])
    if reliability is None:
        return yes, len(votes) - yes
    from rl.raters.dawid_skene import LEAST_VOTES

    if len(votes) < LEAST_VOTES:
        return yes, len(votes) - yes
    share = round(reliability.posterior(votes), 4)
    return len(votes) * share, len(votes) * (1 - share)
