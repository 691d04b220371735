"""The guard rails: a record for each, and their limits, which an agent may set.

``rl.evaluation.guards.rails`` holds versions to them.
"""

from __future__ import annotations

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
    """Its caption on the page of a version."""
    broken_when: str
    """Its line in docs/evaluation.md."""


GUARD_RAILS: Final[tuple[GuardRail, ...]] = (
    GuardRail(
        "degenerate_rate",
        0.2,
        "It says things in words that can be read",
        "more than this share of the answers, and more than one, are [degenerate](#degenerate-answers), whatever other "
        "models do",
    ),
    GuardRail(
        "sameness",
        0.5,
        "It says different things to different questions",
        "the share of answers that have one sentence in common, or are the same, or where people's are known any four "
        "words, is higher by more than this than the share that has it of the answers of the version in use, and of those "
        "that people prefer, on at least 8 prompts",
    ),
    GuardRail(
        "content",
        0.35,
        "Its answers say something of their own",
        "of free answers: the share that says little of its own, in words that no other answer has and no question, is "
        "higher by more than this than that of the version in use, and of those that people prefer, on at least 8 prompts",
    ),
    GuardRail(
        "relevance",
        0.25,
        "Its answers belong to their questions",
        "of free answers: the share that the base model finds likelier behind its own question than behind another one is "
        "lower by more than this than that of the base model's own answers, and of those that people prefer, on at least 8 "
        "prompts",
    ),
    GuardRail(
        "off_kind_rate",
        0.2,
        "Its answers are of the kind that people accept",
        "of answers of a closed set or a structure: the share that is not of it is higher than that of the version in use "
        "by more than this",
    ),
    GuardRail(
        "length_ratio",
        2.0,
        "Its answers are as long as people like them",
        "the mean length in characters is more than so many times that of the version in use, or less than that part of it, "
        "and as far from that of the answers that people prefer",
    ),
    GuardRail(
        "empty_rate",
        0.1,
        "It answers",
        "the share of empty answers is higher than that of the version in use by more than this",
    ),
    GuardRail(
        "refusal_rate",
        0.1,
        "It refuses no more than before",
        "the same of answers that open as a refusal, in English",
    ),
    GuardRail(
        "parse_error_rate",
        0.05,
        "It keeps to the format",
        "the same of answers that are not in the agent's answer format, as the reward `format_compliance` sees it",
    ),
    GuardRail(
        "reward_loss",
        0.05,
        "It earns as much as before",
        "the mean reward is lower by more than this, and by more than chance (95 %)",
    ),
    GuardRail(
        "chosen_likelihood",
        0.5,
        "It finds what people prefer as likely as before",
        "the new version finds a token of held-out preferred answers less likely than the base model does by more than "
        "this, in nats, and by more than chance (95 %)",
    ),
    GuardRail(
        "base_likelihood",
        3.0,
        "The base model finds its answers as likely as people's",
        "the base model finds a token of the answers less likely than one of its own answers, and than one of the answers "
        "that people prefer, by more than this, in nats",
    ),
    GuardRail(
        "kl_to_base",
        None,
        "How far it has moved from the base model",
        "shown only, unless the agent sets a limit: the mean divergence from the base model is larger, in nats a token",
    ),
    GuardRail(
        "task_loss",
        0.02,
        "It solves the task as before",
        "with `--lm-eval`: the accuracy on [your task](#a-task-of-your-own) is lower by more than this, and by more than "
        "chance (95 %)",
    ),
)
GUARD_LIMITS: Final[dict[str, float | None]] = {rail.name: rail.limit for rail in GUARD_RAILS}


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
