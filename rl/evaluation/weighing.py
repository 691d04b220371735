"""Which evidence decides: people's picks between answers of both versions, else fresh answers that a judge compares, else
how the versions rank answers that are there.

The weightiest that can say something decides alone: to take whichever of three is in favour would make three chances of one.
The others are shown beside it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from rl.evaluation.gate import Verdict, decide_preferences
from rl.evaluation.measures import picks
from rl.evaluation.measures.fresh import Fresh, Unheard
from rl.evaluation.measures.picks import Picks
from rl.evaluation.stats.budget import Look

MARGINS = "margins"


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
    evidence.append({"kind": MARGINS, **shown})
    decided_by, verdict = _decide(picked, fresh, margins, terms)
    return Weighed(verdict, {"decided_by": decided_by, "evidence": evidence})


def _decide(picked: Picks | None, fresh: Fresh | Unheard | None, margins: Verdict, terms: Terms) -> tuple[str, Verdict]:
    if picked and len(picked.shares) >= picks.FEWEST_PROMPTS:
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
    return MARGINS, margins


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
