"""What people picked where they saw an answer of each of two versions: the evidence that nothing else outweighs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from statistics import fmean
from typing import Any

from rl.base.measurements import Interval
from rl.base.proportions import wilson
from rl.models import Agent, Feedback, ModelVersion
from rl.models.traces import answered_by

FEWEST_PROMPTS = 20
"""With picks at fewer prompts they are shown and decide nothing."""
_SHARES = {Feedback.Choice.LEFT: 1.0, Feedback.Choice.RIGHT: 0.0}
"""How much of a win a pick is for the answer on the left; a tie and "both bad" are half of one."""


@dataclass(frozen=True, slots=True)
class Picks:
    shares: tuple[float, ...]
    """How often the new version's answer was picked, of each prompt."""
    picks: int

    def interval(self, confidence: float = 0.95) -> Interval:
        """Wilson's, over prompts."""
        return wilson(sum(self.shares), len(self.shares), confidence)

    def as_dict(self) -> dict[str, Any]:
        figures = {"share": asdict(self.interval()), "prompts": len(self.shares), "picks": self.picks}
        return {"kind": "picks", **figures}


def count_picks(agent: Agent, version: ModelVersion, other: ModelVersion | None) -> Picks | None:
    """Side-by-side picks between answers of the two; ``other``: None for the base model. None where nobody picked."""
    shares: defaultdict[str, list[float]] = defaultdict(list)
    for key, share in _shares(agent, version, other):
        shares[key].append(share)
    if not shares:
        return None
    return Picks(tuple(fmean(values) for values in shares.values()), sum(map(len, shares.values())))


def _shares(agent: Agent, version: ModelVersion, other: ModelVersion | None) -> Iterator[tuple[str, float]]:
    rows = Feedback.objects.filter(agent=agent, kind=Feedback.Kind.COMPARISON, is_current=True).order_by()
    for side, opposite in (("trace", "other_trace"), ("other_trace", "trace")):
        duels = rows.filter(answered_by(version, f"{side}__"), answered_by(other, f"{opposite}__"))
        for choice, key in duels.values_list("choice", "trace__prompt_key"):
            share = _SHARES.get(Feedback.Choice(choice), 0.5)
            yield key, share if side == "trace" else 1 - share
