"""The guard rails: a record for each, and their limits, which an agent may set.

``rl.evaluation.guards.rails`` holds versions to them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from rl.base.errors import UsageError
from rl.base.names import require_known


@dataclass(frozen=True, slots=True)
class GuardRail:
    name: str
    limit: float | None
    """None: it is shown, and breaks only where an agent sets a limit of its own."""
    kept: str
    """Its caption on the page of a version. When it breaks, docs/evaluation.md says."""


GUARD_RAILS: Final[tuple[GuardRail, ...]] = (
    GuardRail("degenerate_rate", 0.2, "It says things in words that can be read"),
    GuardRail("sameness", 0.5, "It says different things to different questions"),
    GuardRail("content", 0.35, "Its answers say something of their own"),
    GuardRail("relevance", 0.25, "Its answers belong to their questions"),
    GuardRail("off_kind_rate", 0.2, "Its answers are of the kind that people accept"),
    GuardRail("length_ratio", 2.0, "Its answers are as long as people like them"),
    GuardRail("empty_rate", 0.1, "It answers"),
    GuardRail("refusal_rate", 0.1, "It refuses no more than before"),
    GuardRail("parse_error_rate", 0.05, "It keeps to the format"),
    GuardRail("reward_loss", 0.05, "It earns as much as before"),
    GuardRail("chosen_likelihood", 0.5, "It finds what people prefer as likely as before"),
    GuardRail("base_likelihood", 3.0, "The base model finds its answers as likely as people's"),
    GuardRail("kl_to_base", None, "How far it has moved from the base model"),
    GuardRail("task_loss", 0.02, "It solves the task as before"),
)
GUARD_LIMITS: Final[dict[str, float | None]] = {rail.name: rail.limit for rail in GUARD_RAILS}
CAPTIONS: Final = {rail.name: rail.kept for rail in GUARD_RAILS}


def check_guard_limits(value: Any) -> None:
    """Raises UsageError unless it maps guard rails to numbers above zero, or to None."""
    if not isinstance(value, Mapping):
        raise UsageError("must be a JSON object: guard rail to limit")
    for name, limit in value.items():
        require_known("guard rail", name, GUARD_LIMITS)
        if limit is not None and (isinstance(limit, bool) or not isinstance(limit, (int, float)) or not limit > 0):
            raise UsageError(f"the limit of {name} must be a number above 0, or null to switch it off")


def guard_limits(overrides: Mapping[str, float | None]) -> dict[str, float | None]:
    """The limits in force, without the rails that are switched off; None: a rail that is shown and has no limit."""
    off = {name for name, limit in overrides.items() if limit is None}
    return {name: limit for name, limit in {**GUARD_LIMITS, **overrides}.items() if name not in off}
