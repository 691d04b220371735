"""Who rated, without a name, and which raters are right: learned from all of an agent's answers that several people rated,
and from its pairs of answers that several people compared.

Training sets are copied and shared, and nobody should learn from them who somebody is."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from django.db import connection
from django.db.models import Count, QuerySet
from django.utils.crypto import salted_hmac

from rl.base.records import DirectPreference
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
    """None where too few answers or pairs have enough votes: then all raters count alike."""
    # loads numpy, which the website does not at its start
    from rl.raters.dawid_skene import LEAST_ITEMS, LEAST_VOTES, fit

    current = Feedback.objects.filter(trace__agent=agent, is_current=True).filter(may_be_used("trace__")).order_by()
    votes = _votes_on_pairs(current.filter(kind=Feedback.Kind.COMPARISON, choice__in=_SIDES), LEAST_VOTES)
    if _count_often_rated(LEAST_VOTES, LEAST_ITEMS) + len(votes) >= LEAST_ITEMS:
        rated = current.filter(kind=Feedback.Kind.RATING).exclude(value=0.5)
        several = rated.values("trace").annotate(votes=Count("pk")).filter(votes__gte=LEAST_VOTES).values("trace")
        rows = rated.filter(trace__in=several).order_by("trace_id", "pk")
        for trace, rater, value in rows.values_list("trace_id", "rater", "value"):
            votes[trace].append((pseudonym(rater), (value or 0) > 0.5))
    return fit(votes)


_SIDES: Final = (Feedback.Choice.LEFT, Feedback.Choice.RIGHT)


def _votes_on_pairs(picks: QuerySet[Feedback], least: int) -> defaultdict[Any, list[tuple[str, bool]]]:
    """Who takes the answer that stands on the left, of pairs with so many picks."""
    pair = ("trace", "other_trace")
    several = picks.values(*pair).annotate(votes=Count("pk")).filter(votes__gte=least)
    often = set(several.values_list(*pair))
    votes: defaultdict[Any, list[tuple[str, bool]]] = defaultdict(list)
    rows = picks.filter(trace__in=several.values("trace")).order_by(*pair, "pk") if often else picks.none()
    for left, right, rater, choice in rows.values_list(*pair, "rater", "choice"):
        if (left, right) in often:
            votes[left, right].append((pseudonym(rater), choice == Feedback.Choice.LEFT))
    return votes


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
    if reliability is not None:
        from rl.raters.dawid_skene import LEAST_VOTES

        if len(votes) >= LEAST_VOTES:
            share = round(reliability.posterior(votes), 4)
            return len(votes) * share, len(votes) * (1 - share)
    yes = sum([agrees for _, agrees in votes])
    return yes, len(votes) - yes


def weigh_picks(reliability: Reliability | None, picks: Sequence[DirectPreference]) -> Iterator[DirectPreference]:
    """The same, those of several people about two answers with the weight that the likely truth gives their side."""
    if reliability is None:
        yield from picks
        return
    pairs: defaultdict[frozenset[str], list[DirectPreference]] = defaultdict(list)
    for pick in picks:
        # an edited text is nobody else's
        pairs[frozenset((pick.chosen_trace or str(pick.feedback_id), pick.rejected_trace))].append(pick)
    for of_pair in pairs.values():
        first = of_pair[0].chosen_trace
        votes = [(pick.rater, pick.chosen_trace == first) for pick in of_pair]
        weights = weigh_votes(reliability, votes)
        for pick, (_, agrees) in zip(of_pair, votes, strict=True):
            number = sum(other == agrees for _, other in votes)
            yield replace(pick, weight=weights[not agrees] / number)
