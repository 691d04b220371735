"""Weights that a person may set: what is allowed, and the weights of decision components by type of agent."""

from collections.abc import Mapping

from rl.base.errors import UsageError
from rl.base.names import require_known

HIGHEST = 100.0
SCALES = ("immediate", "delayed", "strategic", "contextual", "accuracy", "quality")
"""Time scales that decision components are grouped by."""

Table = Mapping[str, Mapping[str, float]]
"""Scale to component to weight."""

DECISION_WEIGHTS: dict[str, Table] = {}
"""Type of agent, in capitals, to its weights. ``rl.from_systems`` adds its own when the app starts."""
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
