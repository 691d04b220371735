"""Chains of retrains for benchmarks/gate.py: what is measured on held-out prompts, and the gates that look at it."""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from picks import grown

from rl.evaluation.gate import RIGHT, Verdict, decide_means
from rl.evaluation.stats.bets import HOPELESS_BELOW
from rl.evaluation.stats.budget import ONCE, TOTAL, Look, at_look, stake

LOOKS = 200
Array = np.ndarray[Any, np.dtype[np.float64]]
Levels = Callable[[tuple[int, ...]], Array]
"""Looks at which the chain has promoted, to the one-sided level of each look."""


@dataclass(frozen=True)
class Kind:
    """Of evidence: how one held-out prompt may change from the version in use to the new one, and how likely."""

    name: str
    values: tuple[float, ...]
    shares: tuple[float, ...]
    """Where both versions are equally good."""

    def shares_at(self, quality: Array | float) -> Array:
        """With a mean change of ``quality``: the shares tilted linearly, whose sum stays 1."""
        values, shares = np.array(self.values), np.array(self.shares)
        spread = (shares * values**2).sum()
        return shares * (1 + np.clip(quality, -0.2, 0.2)[..., None] * values / spread)

    def variance(self, quality: float) -> float:
        shares = self.shares_at(np.float64(quality))
        return float((shares * np.square(self.values)).sum() - quality**2)

    def draw(self, quality: Array, prompts: int, rng: np.random.Generator, shared: float = 0.0) -> Array:
        """Counts of the values, a row a look. ``shared``: of the prompts' outcomes that every look sees again."""
        shares = self.shares_at(quality)
        if not shared:
            return rng.multinomial(prompts, shares)
        same = rng.binomial(rng.multinomial(prompts, shares[0]), shared, shares.shape)
        return same + rng.multinomial(prompts - same.sum(axis=-1), shares)

    def ask_gate(self, counts: tuple[int, ...], look: Look) -> Verdict:
        """The real one. All prompts are held out."""
        changes = [value for value, count in zip(self.values, counts, strict=True) for _ in range(count)]
        return decide_means(changes, held_out_share=1, most_prompts=10**9, look=look, words=RIGHT)

    def z(self, counts: Array) -> Array:
        """At most this many standard errors above zero: where it is below the critical value, the gate cannot promote."""
        values, n = np.array(self.values), counts.sum(axis=-1) + 2  # one more gained, one more lost
        counts = counts + np.array([1, 0, 1])
        mean = counts @ values / n
        return mean / np.sqrt(np.maximum((counts @ values**2 / n - mean**2) / (n - 1), 1e-12))


RIGHT_ANSWERS = Kind("right or wrong", (-1.0, 0.0, 1.0), (0.15, 0.7, 0.15))
"""30 % of the prompts fall to one of the two."""


@lru_cache(maxsize=100_000)
def promotes(kind: Kind, counts: tuple[int, ...], look: Look) -> bool:
    return kind.ask_gate(counts, look).decision == "promote"


# --- gates -------------------------------------------------------------------------------------------------------------


def since_promotion(level: Callable[[int], float]) -> Levels:
    """Of a budget that a promotion starts anew."""
    table = np.array([level(look) for look in range(1, LOOKS + 1)])

    def levels(promotions: tuple[int, ...]) -> Array:
        last = promotions[-1] if promotions else 0
        return np.concatenate([np.full(last, np.nan), table[: LOOKS - last]])

    return levels


def power_law(exponent: float) -> Callable[[int], float]:
    total = sum(look**-exponent for look in range(1, 10**5)) + (10**5) ** (1 - exponent) / (exponent - 1)
    return lambda look: TOTAL * look**-exponent / total


def lord(promotions: tuple[int, ...]) -> Array:
    """LORD++ (Ramdas et al. 2017), with the sequence of Javanmard and Montanari (2018) and w0 = alpha / 2."""
    looks = np.arange(1, LOOKS + 1)
    gamma = 0.0722 * np.log(np.maximum(looks, 2)) / (looks * np.exp(np.sqrt(np.log(looks))))
    levels = TOTAL / 2 * gamma
    for number, look in enumerate(promotions):
        levels[look:] += (TOTAL / 2 if number == 0 else TOTAL) * gamma[: LOOKS - look]
    return levels


CHOSEN, TODAY = "budget, half early and half thin", "2.5 % at every look"
GATES: dict[str, Levels] = {
    TODAY: since_promotion(lambda look: ONCE.level),
    CHOSEN: since_promotion(lambda look: at_look(look).level),
    "half early, half uniform over 200": since_promotion(
        lambda look: TOTAL * (1 / (look * (look + 1)) + 1 / LOOKS) / 2
    ),
    "uniform over 200": since_promotion(lambda look: TOTAL / LOOKS),
    "k^-1.1": since_promotion(power_law(1.1)),
    "k^-1.5": since_promotion(power_law(1.5)),
    "k^-2": since_promotion(power_law(2)),
    "LORD++": lord,
}
E_VALUES = "budget with e-values"
BETS = np.linspace(0.05, 0.95, 19)


@lru_cache(maxsize=10_000)
def levels_of(gate: str, promotions: tuple[int, ...]) -> tuple[Array, Array]:
    """Of each look its level and critical value."""
    levels = GATES[CHOSEN if gate == E_VALUES else gate](promotions)
    normal = NormalDist()
    return levels, np.array([np.inf if np.isnan(level) else normal.inv_cdf(1 - level) for level in levels])


def log_e_values(kind: Kind, counts: Array) -> Array:
    """A mixture of bets that the mean is above zero: else at least 1 / level in no more than ``level`` of cases."""
    values = np.array(kind.values) / max(kind.values)
    logs = counts @ np.log1p(BETS[:, None] * values).T
    most = logs.max(axis=-1)
    return most + np.log(np.exp(logs - most[:, None]).mean(axis=-1))


def first_promotion(gate: str, kind: Kind, counts: Array, start: int, promotions: tuple[int, ...]) -> int | None:
    """The row of ``counts`` at which the gate promotes; row 0 is look ``start``, counted from 1."""
    levels, critical = (of_looks[start - 1 : start - 1 + len(counts)] for of_looks in levels_of(gate, promotions))
    if gate == E_VALUES:
        return next(map(int, np.flatnonzero(log_e_values(kind, counts) >= -np.log(levels))), None)
    last = promotions[-1] if promotions else 0
    for row in map(int, np.flatnonzero(kind.z(counts) > critical)):
        level = float(levels[row])
        look = at_look(start + row - last) if gate == CHOSEN else Look(level, level)
        if promotes(kind, tuple(map(int, counts[row])), look):
            return row
    return None


# --- chains ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class World:
    """How good a new version truly is."""

    mean: float = 0.0
    """Compared with the version in use."""
    scatter: float = 0.0
    """Standard deviation of that."""
    from_start: bool = False
    """Compared with where the chain began instead: good versions make it hard to follow."""
    shared: float = 0.0


def run_chain(gate: str, kind: Kind, world: World, prompts: int, rng: np.random.Generator) -> tuple[int, float]:
    """How many retrains were promoted, and how good the last version is, compared with the first."""
    qualities = rng.normal(world.mean, world.scatter, LOOKS) if world.scatter else np.full(LOOKS, world.mean)
    promotions: tuple[int, ...] = ()
    quality, start = 0.0, 1
    while start <= LOOKS:
        gains = qualities[start - 1 :] - (quality if world.from_start else 0.0)
        row = first_promotion(gate, kind, kind.draw(gains, prompts, rng, world.shared), start, promotions)
        if row is None:
            break
        quality += float(gains[row])
        promotions += (start + row,)
        start += row + 1
    return len(promotions), quality


def ask_people(share: float, picks: int, rng: np.random.Generator) -> tuple[bool, list[float]]:
    """Whether one of LOOKS candidates is put into use by people who take it at this share of ``picks`` duels, looked at
    after each, and the stakes of those that they were asked about. None was promoted before."""
    before: list[tuple[float, float]] = []
    for evidence in grown((rng.random((LOOKS, picks)) < share).astype(float)):
        staked = stake(before)
        hopeless = np.flatnonzero(evidence < HOPELESS_BELOW)
        seen = evidence[: hopeless[0] + 1] if hopeless.size else evidence
        before.append((staked, float(seen[-1])))
        if (staked * seen >= 1).any():
            return True, [of for of, _ in before]
    return False, [of for of, _ in before]


def is_promoted_soon(
    gate: str, kind: Kind, gain: float, prompts: int, looks_before: int, rng: np.random.Generator, within: int = 3
) -> bool:
    counts = kind.draw(np.full(within, gain), prompts, rng)
    return first_promotion(gate, kind, counts, looks_before + 1, ()) is not None
