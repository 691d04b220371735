"""The reward of a decision (OCD): what came of it, in components by time scale."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from rl.base.records import TraceRecord
from rl.config.reward_weights import SCALES, Table, decision_weights
from rl.rewards.base import BaseReward, RewardResult

FEEDBACK: Mapping[str, float] = {"CONFIRMED": 1.0, "CORRECTED": -0.5, "OVERRIDDEN": -0.8, "IGNORED": 0.0}
"""What a person did with the decision, as a raw reward."""
LIMIT = 5.0
"""A weighted sum of components is clamped to ± this."""
_RIGHT = {"CONFIRMED": 1.0, "CORRECTED": 0.0, "OVERRIDDEN": 0.0}


class DecisionReward(BaseReward):
    """(r + 2) / 4, clamped to 0 … 1, of the raw reward r: the one that came with the decision, else the weighted sum of its
    components, else what the person did with it.

    A component is what came with the decision, else what can be told from what is known: userFeedback and userAcceptance
    from the person's word, confidenceCalibration from word and confidence (Brier), the others from the last outcome of their
    name, held to ± 1. A component named …Penalty counts downwards, whatever its sign.
    """

    name = "decision"
    weight = 1.0
    fresh = False

    def __init__(self, weights: Table | None = None) -> None:
        """``weights`` take the place of those of the type's table that have their scale and name."""
        self.own_weights = weights or {}

    def compute(self, trace: TraceRecord) -> RewardResult:
        decision = trace.details.get("decision")
        if not isinstance(decision, Mapping):
            return self.abstains("it is not a decision")
        word = feedback_word(trace, decision)
        stored = _number(decision.get("reward"))
        if stored is not None:
            return self._normalise(stored, "the reward that came with the decision")
        components = self._components(trace, decision, word)
        if components:
            parts = [part for scale in components.values() for part in scale.values()]
            raw = math.fsum(part["value"] * part["weight"] for part in parts)
            return self._normalise(raw, f"the weighted sum of {len(parts)} components", components=components)
        if word:
            return self._normalise(FEEDBACK[word], f"the person's word: {word}")
        return self.abstains("nothing is known yet of what came of the decision")

    def _normalise(self, raw: float, reason: str, **details: Any) -> RewardResult:
        raw = min(LIMIT, max(-LIMIT, raw))
        return self.gives(min(1.0, max(0.0, (raw + 2) / 4)), reason, reward=raw, **details)

    def _components(self, trace: TraceRecord, decision: Mapping[str, Any], word: str) -> dict[str, Any]:
        """Scale to name to {value, weight}, of those that are known and have a weight."""
        agent_type = decision.get("agentType")
        table = decision_weights(agent_type if isinstance(agent_type, str) else trace.agent, self.own_weights)
        stored = decision.get("rewardComponents")
        known = _read_stored(stored) if isinstance(stored, Mapping) else {}
        derived = {**_outcomes(trace), **_of_feedback(word, _number(decision.get("confidence")))}
        components: dict[str, Any] = {}
        for scale, weights in table.items():
            for name, weight in weights.items():
                value = known.get((scale, name), known.get(("", name), derived.get(name)))
                if value is not None and weight:
                    components.setdefault(scale, {})[name] = {"value": _apply_sign(name, value), "weight": weight}
        return components


def feedback_word(trace: TraceRecord, decision: Mapping[str, Any]) -> str:
    """The word of the last rating that has one as a tag, else the one that came with the decision; empty: none."""
    tags = (tag.upper() for event in reversed(trace.feedback) if event.kind == "rating" for tag in event.tags)
    word = next((tag for tag in tags if tag in FEEDBACK), "") or str(decision.get("userFeedback") or "").upper()
    return word if word in FEEDBACK else ""


def _read_stored(components: Mapping[str, Any]) -> dict[tuple[str, str], float]:
    """(scale, name) to value; the scale of a flat component is empty."""
    return dict(_walk(components))


def _walk(components: Mapping[str, Any]) -> Iterator[tuple[tuple[str, str], float]]:
    for name, value in components.items():
        if isinstance(value, Mapping) and name in SCALES:
            yield from (((name, inner), number) for (_, inner), number in _walk(value))
        elif (number := _number(value)) is not None:
            yield ("", name), number


def _outcomes(trace: TraceRecord) -> dict[str, float]:
    """Metric to its last value, held to ± 1."""
    observed = ((event.metric, event.raw_value) for event in trace.feedback if event.kind == "outcome")
    return {metric: min(1.0, max(-1.0, value)) for metric, value in observed if value is not None}


def _of_feedback(word: str, confidence: float | None) -> dict[str, float]:
    if not word:
        return {}
    components = {"userFeedback": FEEDBACK[word], "userAcceptance": FEEDBACK[word]}
    if confidence is not None and word in _RIGHT:
        components["confidenceCalibration"] = 1 - 2 * (min(1.0, max(0.0, confidence)) - _RIGHT[word]) ** 2
    return components


def _apply_sign(name: str, value: float) -> float:
    return -abs(value) if name.endswith("Penalty") else value


def _number(value: object) -> float | None:
    """Finite; a truth value is 0 or 1."""
    try:
        return float(value) if isinstance(value, (int, float)) and math.isfinite(value) else None
    except OverflowError:  # a whole number that no float can be
        return None
