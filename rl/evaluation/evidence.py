"""What else the held-out prompts say, beside the interval that the gate decides by."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from rl.evaluation.stats.exact_tests import mcnemar
from rl.evaluation.stats.intervals import bootstrap_interval, counts_of
from rl.evaluation.stats.sample_size import POWER, prompts_for_power_of_counts, prompts_for_power_of_means


def of_shares(changes: Sequence[float], margin: float) -> dict[str, Any]:
    """``changes``: of each prompt's share of right pairs, or of a task's success, -1 to 1."""
    needed = prompts_for_power_of_counts(counts_of(changes), margin)
    return {"mcnemar": asdict(mcnemar(changes)), **_evidence(changes, margin, needed)}


def of_means(changes: Sequence[float], margin: float) -> dict[str, Any]:
    """``changes``: of each prompt's reward."""
    return _evidence(changes, margin, prompts_for_power_of_means(changes, margin))


def _evidence(changes: Sequence[float], margin: float, needed: int | None) -> dict[str, Any]:
    interval = bootstrap_interval(changes)
    return {
        "bootstrap": asdict(interval) if interval else None,
        "prompts_for_power": {"prompts": needed, "power": POWER},
        "margin": margin,
    }
