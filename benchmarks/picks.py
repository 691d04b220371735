"""Evidence that grows pick by pick, for many picks at once."""

from typing import Any

import numpy as np

from rl.evaluation.stats.bets import STAKES


def grown(picks: np.ndarray[Any, Any], share: float = 0.5) -> np.ndarray[Any, Any]:
    """(..., N): E against ``share`` after each of the N picks, as ``bets.evidence`` has it."""
    logs = np.log1p((picks[..., None] - share) / share * np.array(STAKES))
    return np.asarray(np.exp(logs.cumsum(axis=-2)).mean(axis=-1))
