"""Which arm of an experiment a user gets: a hash decides, so that all processes agree and nothing is looked up."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

Key = TypeVar("Key", int, str)


def shares(
    weights: Mapping[Key, float], control: Key | None, ramp: Sequence[Mapping[str, Any]], hours: float
) -> dict[Key, float]:
    """Share of the traffic of each arm, 0 to 1, ``hours`` after the start; empty when no weight is above zero. A step of
    the ramp (``hours``, ``share``) says how much all but the control get together; they divide it by their weights. Without
    a control, or before there is a step, the weights alone decide."""
    total = sum(weights.values())
    if total <= 0:
        return {}
    plain = {key: weight / total for key, weight in weights.items()}
    reached = [step["share"] for step in ramp if step["hours"] <= hours]
    others = sum(share for key, share in plain.items() if key != control)
    if not reached or control not in plain or others <= 0:
        return plain
    return {key: 1 - reached[-1] if key == control else reached[-1] * plain[key] / others for key in plain}


def pick(experiment: int | str, unit: str, of_arms: Mapping[Key, float]) -> Key:
    """The arm of ``unit`` by weighted rendezvous hashing (Thaler and Ravishankar 1998; Schindelhauer and Schomaker 2005):
    when one share grows, users move to that arm and to no other. Raises ValueError when no share is above zero."""
    return max(
        (key for key, share in of_arms.items() if share > 0), key=lambda key: _score(experiment, unit, key, of_arms)
    )


def _score(experiment: int | str, unit: str, key: Key, of_arms: Mapping[Key, float]) -> float:
    digest = hashlib.sha256(f"{experiment}\0{key}\0{unit}".encode()).digest()
    fraction = (int.from_bytes(digest[:8]) + 0.5) / 2**64
    return -of_arms[key] / math.log(fraction)
