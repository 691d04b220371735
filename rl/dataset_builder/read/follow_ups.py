"""How far the next messages of users are relied on: as far as people agreed with what the model heard in them."""

from typing import Final, NamedTuple

from rl.base.measurements import wilson
from rl.models import Agent, Feedback, LabelModel

SOURCE: Final = "follow_up"
"""The source of ratings by people who were shown what the model heard."""
LEAST_SEEN: Final = 10
"""That a person has to have seen before any is learned from."""
NEWEST: Final = 100
MOST_WEIGHT: Final = 0.3
"""What an answer weighs at most beside one that a person rated."""


class Reviews(NamedTuple):
    agreed: int
    seen: int
    is_informative: bool
    """The newest model is surely better than a coin."""

    @property
    def weight(self) -> float:
        """0: they are not learned from. Else twice the share that is surely right, less one, up to MOST_WEIGHT."""
        if self.seen < LEAST_SEEN or not self.is_informative:
            return 0.0
        return round(min(MOST_WEIGHT, max(0.0, 2 * wilson(self.agreed, self.seen).low - 1)), 4)


def read_reviews(agent: Agent) -> Reviews:
    """Counts the NEWEST. Two queries."""
    model = agent.label_models.filter(reads=LabelModel.Reads.FOLLOW_UP).first()
    events = Feedback.objects.filter(agent=agent, source=SOURCE, kind=Feedback.Kind.RATING, is_current=True)
    shown = events.filter(trace__follow_up__isnull=False).order_by("-created_at", "id")
    pairs = list(shown.values_list("value", "trace__follow_up__good")[:NEWEST])
    agreed = sum((value or 0) > 0.5 if good else (value or 0) < 0.5 for value, good in pairs)
    return Reviews(agreed, len(pairs), model is not None and model.is_informative)
