"""Weights that a person may set: what is allowed, and OCD's weights of decision components by type of agent."""

from __future__ import annotations

from collections.abc import Mapping

from rl.base.errors import UsageError
from rl.base.names import require_known

HIGHEST = 100.0
SCALES = ("immediate", "delayed", "strategic", "contextual", "accuracy", "quality")
"""Time scales that decision components are grouped by."""

Table = Mapping[str, Mapping[str, float]]
"""Scale to component to weight."""

DECISION_WEIGHTS: Mapping[str, Table] = {
    "FILER": {
        "immediate": {"userFeedback": 1.0, "confidenceCalibration": 0.1},
        "delayed": {"completionSuccess": 0.5, "blockageAvoidance": 0.3, "reworkPenalty": 0.2, "timeEfficiency": 0.3},
        "strategic": {"goalAlignment": 0.4, "opportunityCost": 0.2},
    },
    "LIBRARIAN": {
        "immediate": {"userFeedback": 1.0},
        "delayed": {
            "conflictPrevention": 2.0,
            "falsePositivePenalty": 0.5,
            "missedIssuePenalty": 2.0,
            "dependencyAccuracy": 0.5,
        },
    },
    "PRIORITIZER": {
        "immediate": {"userAcceptance": 1.0},
        "delayed": {
            "completionSuccess": 1.0,
            "timeEfficiency": 0.5,
            "strategicProgress": 0.8,
            "opportunityCost": 0.3,
        },
        "contextual": {"energyAlignment": 0.2, "flowMaintenance": 0.2},
    },
    "STORER": {
        "immediate": {"userAcceptance": 1.0, "editDistance": 0.5},
        "delayed": {"corpusCoherence": 0.7, "findability": 0.6, "duplicationPenalty": 0.4},
    },
    "RETRIEVER": {
        "immediate": {"userAcceptance": 1.0, "editDistance": 0.5},
        "accuracy": {"citationCorrectness": 0.8, "hallucinationPenalty": 2.0, "completeness": 0.6},
        "quality": {"coherence": 0.4, "styleAlignment": 0.3},
    },
}
OTHER_TYPES: Table = {"immediate": {"userFeedback": 1.0}}


def decision_weights(agent_type: str, own: Table | None = None) -> dict[str, dict[str, float]]:
    """The type's table, with an agent's ``own`` weights in place of those of the same scale and name."""
    table = DECISION_WEIGHTS.get(agent_type.upper(), OTHER_TYPES)
    own = own or {}
    merged = {scale: {**table.get(scale, {}), **own.get(scale, {})} for scale in SCALES}
    return {scale: components for scale, components in merged.items() if components}


def check_reward_weights(value: object) -> None:
    """Raises UsageError; does not know which rewards there are."""
    if not isinstance(value, Mapping):
        raise UsageError('must be a JSON object of reward names and weights, such as {"efficiency": 0.2}')
    for name, weight in value.items():
        _check_weight(str(name), weight)


def check_decision_weights(value: object) -> None:
    """Raises UsageError."""
    if not isinstance(value, Mapping):
        raise UsageError('must be a JSON object such as {"delayed": {"completionSuccess": 1.0}}')
    for scale, components in value.items():
        require_known("time scale", scale, SCALES)
        if not isinstance(components, Mapping):
            raise UsageError(f"{scale} must be a JSON object of component names and weights")
        for name, weight in components.items():
            _check_weight(f"{scale}.{name}", weight)


def _check_weight(name: str, weight: object) -> None:
    number = isinstance(weight, (int, float)) and not isinstance(weight, bool)
    if not number or not 0 <= weight <= HIGHEST:  # type: ignore[operator]  # also refuses NaN
        raise UsageError(f"the weight of {name} must be a number from 0 (off) to {HIGHEST:g}, not {weight!r}")
