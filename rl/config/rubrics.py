"""A record for each rubric of ``RatingQueue`` says what the rating page asks."""

from dataclasses import dataclass
from typing import Final, Literal


@dataclass(frozen=True, slots=True)
class AskedOpinion:
    asks: Literal["value", "choice", "text"]
    """A value of one answer, which of two is better, or a better text."""
    scale: str = ""
    """A value is stored as this one of ``Feedback.Scale``."""
    points: int = 0
    """Values on the page, as far from each other as from 0 to 1."""
    between: bool = False
    """Whether values between the points are taken too."""
    metric: Literal["nominal", "ordinal", "interval"] = "nominal"
    """How far two values lie apart, for Krippendorff's alpha."""

    @property
    def values(self) -> list[float]:
        return [point / (self.points - 1) for point in range(self.points)]


ASKED: Final[dict[str, AskedOpinion]] = {
    "thumbs": AskedOpinion("value", "thumb", 2),
    "stars": AskedOpinion("value", "stars", 5, metric="ordinal"),
    "score": AskedOpinion("value", "score", 9, between=True, metric="interval"),
    "pair": AskedOpinion("choice"),
    "edit": AskedOpinion("text"),
}
"""By rubric. What draws it is in static/rl/rate_rubrics.js, and docs/queues.md says what it is for."""
