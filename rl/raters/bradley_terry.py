"""Strengths of versions out of comparisons: i beats j with probability 1 / (1 + exp(s_j - s_i)) (Bradley and Terry, 1952).

The base version has strength 0. A tie is half a win for both. Strengths are the most likely ones under a normal prior of
mean 0 and deviation PRIOR_DEVIATION: after three wins in three games a version is strong, and not infinitely so. Intervals
are Laplace's, from the curvature at the maximum."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from rl.base.measurements import Interval, z_of

PRIOR_DEVIATION: Final = 2.0
_STEPS: Final = 100
_CLOSE: Final = 1e-9


class Game(NamedTuple):
    left: str
    right: str
    score: float
    """1 where the left wins, 0.5 a tie, 0 where it loses."""


@dataclass(frozen=True, slots=True)
class Standing:
    name: str
    against_base: Interval
    """How often it wins against the base version, 0 to 1; one half of the base version itself."""
    games: int


def rank(games: Iterable[Game], base: str) -> list[Standing]:
    """The strongest first. Games of a version against itself say nothing. ``base``, which may have no games, is in the list.

    A version that never met the base, or others that did, has an interval that says so."""
    counted = [game for game in games if game.left != game.right]
    names = sorted({name for game in counted for name in game[:2]} - {base})
    numbers = {base: -1, **{name: number for number, name in enumerate(names)}}
    strengths, deviations = _fit([(numbers[left], numbers[right], score) for left, right, score in counted], len(names))
    z = z_of(0.95)
    played = {name: sum(name in game[:2] for game in counted) for name in numbers}
    standings = [
        Standing(name, Interval(*(float(1 / (1 + np.exp(-s - step * z * d))) for step in (0, -1, 1))), played[name])
        for name, s, d in zip(names, strengths, deviations, strict=True)
    ]
    standings.append(Standing(base, Interval(0.5, 0.5, 0.5), played[base]))
    return sorted(standings, key=lambda standing: (-standing.against_base.value, standing.name))


def _fit(games: list[tuple[int, int, float]], versions: int) -> tuple[np.ndarray, np.ndarray]:
    """Strengths and their standard deviations, by Newton's method; number -1 is the base version."""
    left, right = (np.array([game[side] for game in games], dtype=int) for side in (0, 1))
    design = np.zeros((len(games), versions + 1))
    design[np.arange(len(games)), left] = 1
    design[np.arange(len(games)), right] = -1
    design, score = design[:, :versions], np.array([game[2] for game in games])
    strengths = np.zeros(versions)
    prior = np.eye(versions) / PRIOR_DEVIATION**2
    curvature = prior
    for _ in range(_STEPS):
        expected = 1 / (1 + np.exp(-design @ strengths))
        curvature = design.T @ (design * (expected * (1 - expected))[:, None]) + prior
        step = np.linalg.solve(curvature, design.T @ (score - expected) - prior @ strengths)
        strengths = strengths + np.clip(step, -1, 1)
        if versions == 0 or float(np.abs(step).max()) < _CLOSE:
            break
    return strengths, np.sqrt(np.diag(np.linalg.inv(curvature)))
