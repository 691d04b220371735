"""The reward of a decision: what came of it, in components by time scale.

A decision is an answer with ``details["decision"]``, an object. Which components can be told from what is known is said by
formulas, one for each type of agent; ``rl.from_systems`` brings them."""

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from rl.base.leaves import import_name
from rl.base.records import FeedbackRecord, TraceRecord
from rl.config.reward_weights import SCALES, Table, decision_weights
from rl.rewards.base import BaseReward, RewardResult

LIMIT = 5.0
"""A weighted sum of components is clamped to ± this."""
RATER = "decision"
"""Who rates a decision by its record or its calls: this, or this with a colon and a name."""

Formula = Callable[[TraceRecord], Mapping[str, float]]
"""The components that can be told from what is known of a decision, by name; empty where nothing is known yet."""
FORMULAS: dict[str, str] = {}
"""Type of agent, in capitals, to the dotted name of its Formula. ``rl.from_systems`` adds its own when the app starts."""
OTHER_TYPES = ""
"""The name in FORMULAS of the formula for types that have none of their own."""


class DecisionReward(BaseReward):
    """(r + 2) / 4, clamped to 0 … 1, of the raw reward r: the one that came with the decision, else the weighted sum of its
    components, held to ± 5. A component is what came with the decision, else what the formula of the agent's type tells,
    else the last outcome of its name. One named …Penalty counts downwards, whatever its sign."""

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
        stored = number(decision.get("reward"))
        if stored is not None:
            return self._normalise(stored, "the reward that came with the decision")
        components = self._components(trace, decision)
        if components:
            parts = [part for scale in components.values() for part in scale.values()]
            raw = math.fsum(part["value"] * part["weight"] for part in parts)
            count = f"{len(parts)} component{'s' * (len(parts) != 1)}"
            return self._normalise(raw, f"the weighted sum of {count}", components=components)
        return self.abstains("nothing is known yet of what came of the decision")

    def _normalise(self, raw: float, reason: str, **details: Any) -> RewardResult:
        raw = min(LIMIT, max(-LIMIT, raw))
        return self.gives(min(1.0, max(0.0, (raw + 2) / 4)), reason, reward=raw, **details)

    def _components(self, trace: TraceRecord, decision: Mapping[str, Any]) -> dict[str, Any]:
        """Scale to name to {value, weight}, of those that are known and have a weight."""
        agent_type = type_of(trace)
        table = decision_weights(agent_type, self.own_weights)
        stored = decision.get("rewardComponents")
        known = dict(_walk(stored)) if isinstance(stored, Mapping) else {}
        path = FORMULAS.get(agent_type) or FORMULAS.get(OTHER_TYPES)
        derived = {**last_outcomes(trace), **(import_name(path)(trace) if path else {})}
        components: dict[str, Any] = {}
        for scale, weights in table.items():
            for name, weight in weights.items():
                value = known.get((scale, name), known.get(("", name), derived.get(name)))
                if value is not None and weight:
                    signed = -abs(value) if name.endswith("Penalty") else value
                    components.setdefault(scale, {})[name] = {"value": signed, "weight": weight}
        return components


def type_of(trace: TraceRecord) -> str:
    """In capitals: what the decision says, else the agent's name."""
    decision = trace.details.get("decision")
    named = decision.get("agentType") if isinstance(decision, Mapping) else None
    return (named if isinstance(named, str) and named else trace.agent).upper()


def is_of_decision(event: FeedbackRecord) -> bool:
    """Whether it came with a decision's record or by its calls, so that the reward ``decision`` counts it."""
    return is_rater_of_decision(event.rater)


def is_rater_of_decision(rater: str) -> bool:
    return rater.partition(":")[0] == RATER


def last_outcomes(trace: TraceRecord) -> dict[str, float]:
    """Metric to its last value."""
    observed = ((event.metric, event.raw_value) for event in trace.feedback if event.kind == "outcome")
    return {metric: value for metric, value in observed if value is not None}


def number(value: object) -> float | None:
    """Finite; a truth value is 0 or 1."""
    try:
        return float(value) if isinstance(value, (int, float)) and math.isfinite(value) else None
    except OverflowError:  # a whole number that no float can be
        return None


def _walk(components: Mapping[str, Any]) -> Iterator[tuple[tuple[str, str], float]]:
    """(scale, name) and value; the scale of a flat component is empty."""
    for name, value in components.items():
        if isinstance(value, Mapping) and name in SCALES:
            yield from (((name, inner), known) for (_, inner), known in _walk(value))
        elif (known := number(value)) is not None:
            yield ("", name), known
