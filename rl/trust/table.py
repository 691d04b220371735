"""Versions of an agent by the side-by-side picks of their answers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from django.db.models import Q, QuerySet

from rl.models import BASE, Agent, Feedback
from rl.models.traces import answered_by

if TYPE_CHECKING:
    from rl.raters.bradley_terry import Game, Standing

_SCORES: Final = {Feedback.Choice.LEFT: 1.0, Feedback.Choice.RIGHT: 0.0}
"""A tie and "both bad" are half a win for both."""


def version_table(agent: Agent) -> list[Standing]:
    """The strongest first. An answer of which nobody knows who gave it counts for nobody."""
    from rl.raters.bradley_terry import rank  # loads numpy, which the website does not at its start

    return rank(_games(agent), BASE)


def _games(agent: Agent) -> Iterator[Game]:
    from rl.raters.bradley_terry import Game

    for left_is_known in (True, False):
        for right_is_known in (True, False):
            for left, right, choice in _picks(agent, left_is_known, right_is_known):
                yield Game(left or BASE, right or BASE, _SCORES.get(Feedback.Choice(choice), 0.5))


def _picks(agent: Agent, left: bool, right: bool) -> QuerySet[Feedback, tuple[str | None, str | None, str]]:
    """``left``, ``right``: by a version, or by the base model."""
    rows = Feedback.objects.filter(agent=agent, kind=Feedback.Kind.COMPARISON, is_current=True).order_by()
    for side, by_version in (("trace__", left), ("other_trace__", right)):
        known = Q(**{f"{side}model_version__isnull": False})
        rows = rows.filter(known if by_version else answered_by(None, side))
    return rows.values_list("trace__model_version__name", "other_trace__model_version__name", "choice")
