"""The limits of the guard rails, which an agent may set; ``rl.evaluation.guards.rails`` holds versions to them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from rl.base.errors import UsageError
from rl.base.names import require_known

GUARD_LIMITS: Final[dict[str, float]] = {
    "degenerate_rate": 0.2,
    "length_ratio": 2.0,
    "empty_rate": 0.1,
    "refusal_rate": 0.1,
    "parse_error_rate": 0.05,
    "reward_loss": 0.05,
    "kl_to_base": 1.0,
    "base_likelihood": 0.7,
    "task_loss": 0.02,
}
"""``degenerate_rate``: share of answers that are empty, repeat, do not end, echo the prompt or change the language, whatever
other models do. ``length_ratio``: answers at most this many times longer, or shorter, than those of the version in use.
Other rates: at most this much above its share of empty answers, refusals, answers that are not in the agent's format.
``reward_loss``: mean reward lost, 0 to 1. ``kl_to_base``: nats a token. ``base_likelihood``: nats a token that the base
model finds the answers less likely than its own. ``task_loss``: accuracy lost on a task of lm-eval, 0 to 1."""


def check_guard_limits(value: Any) -> None:
    """Raises UsageError unless it maps guard rails to numbers above zero, or to None."""
    if not isinstance(value, Mapping):
        raise UsageError("must be a JSON object: guard rail to limit")
    for name, limit in value.items():
        require_known("guard rail", name, GUARD_LIMITS)
        if limit is not None and (isinstance(limit, bool) or not isinstance(limit, (int, float)) or not limit > 0):
            raise UsageError(f"the limit of {name} must be a number above 0, or null to switch it off")


def guard_limits(overrides: Mapping[str, float | None]) -> dict[str, float]:
    """The limits in force."""
    return {name: limit for name, limit in {**GUARD_LIMITS, **overrides}.items() if limit is not None}
