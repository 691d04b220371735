"""Which evidence decides: people's picks between answers of both versions, else fresh answers that a judge compares, else
how the versions rank answers that are there.

The weightiest that can say something decides alone: to take whichever of three is in favour would make three chances of one.
The others are shown beside it.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import asdict, dataclass, replace
from statistics import fmean
from typing import Any

from rl.base.measurements import Interval, wilson
from rl.evaluation.gate import Verdict, decide_preferences
from rl.evaluation.measures.fresh import Fresh, Unheard
from rl.evaluation.stats.budget import Look
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
    rows = Feedback.objects.filter(agent=agent, kind=Feedback.Kind.COMPARISON, is_current=True).order_by()
    for side, opposite in (("trace", "other_trace"), ("other_trace", "trace")):
        duels = rows.filter(answered_by(version, f"{side}__"), answered_by(other, f"{opposite}__"))
        for choice, key in duels.values_list("choice", "trace__prompt_key"):
            share = _SHARES.get(Feedback.Choice(choice), 0.5)
            shares[key].append(share if side == "trace" else 1 - share)
    if not shares:
        return None
    return Picks(tuple(fmean(values) for values in shares.values()), sum(map(len, shares.values())))


@dataclass(frozen=True, slots=True)
class Terms:
    """Under which a verdict is given."""

    look: Look
    margin: float
    """Loss that is bearable."""
    held_out_share: float
    most_prompts: int
    """That fresh answers are asked for."""


@dataclass(frozen=True, slots=True)
class Weighed:
    verdict: Verdict
    report: dict[str, Any]
    """``decided_by``: picks, fresh or margins; ``evidence``: of each kind that there is, the weightiest first."""


def weigh(
    picked: Picks | None, fresh: Fresh | Unheard | None, margins: Verdict, shown: dict[str, Any], terms: Terms
) -> Weighed:
    """``margins``: what the gate says of the held-out answers' relative margins; ``shown``: its figures. A judge that could
    not be asked leaves open what it would have decided: weaker evidence does not step in for it."""
    evidence = [of_kind.as_dict() for of_kind in (picked, fresh) if of_kind]
    evidence.append({"kind": "margins", **shown})
    decided_by, verdict = _decide(picked, fresh, margins, terms)
    return Weighed(verdict, {"decided_by": decided_by, "evidence": evidence})


def _decide(picked: Picks | None, fresh: Fresh | Unheard | None, margins: Verdict, terms: Terms) -> tuple[str, Verdict]:
    if picked and len(picked.shares) >= FEWEST_PROMPTS:
        source = f"people picked between answers of both {picked.picks} times"
        return "picks", _on_shares(picked, source, terms)
    if isinstance(fresh, Unheard):
        reason = f"Fresh answers could not be compared: {fresh.problem}. Evaluate again when that is mended."
        return "fresh", replace(margins, decision="undecided", ratings_needed=None, reason=reason)
    if fresh and fresh.judge.beats_chance:
        agreement = fresh.judge.agreement
        source = (
            f"fresh answers to questions that neither has learned from, compared by {fresh.judge.name}, which agrees with "
            f"people on {agreement.value:.0%} of {fresh.judge.prompts} prompts"
        )
        return "fresh", _on_shares(fresh, source, terms)
    return "margins", margins


def _on_shares(preferred: Picks | Fresh, source: str, terms: Terms) -> Verdict:
    return decide_preferences(
        [share - 0.5 for share in preferred.shares],
        preferred.interval,
        source,
        held_out_share=terms.held_out_share,
        most_prompts=terms.most_prompts,
        look=terms.look,
        margin=terms.margin,
    )
