"""How good a version is: scores of held-out pairs, statistics on them, and the gate that decides from both.

Imports: base, collect, config, data_formatter, dataset_builder, environments, export, judge, lm, models, operations,
    scoring, training, versions; Django."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from rl.base.manner import ASKED_PLAINLY, Manner

SCORERS: dict[str, str] = {
    "preference": "rl.evaluation.torch.scoring",
    "reward": "rl.evaluation.torch.answering",
    "success": "rl.evaluation.torch.solving",
    "reward_model": "rl.training.reward_scoring",
}
"""Measure to the module that runs the models, imported on first use because it brings torch along."""
DECIDING_FIELDS: dict[str, str] = {}
"""Type of agent, in capitals, to the field of an answer, a JSON object, that decides whether it is right; all of them decide
of other types. ``rl.from_systems`` adds its own when the app starts."""

MODELS = ("new", "base", "current")
COMPARED = 100
"""Prompts whose two answers a report keeps, so that a person can count after it."""
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Contest:
    base_model: str
    weights: Path | None
    """The new version's weights: an adapter, a whole model, or None for those of the base model."""
    current: tuple[str, Path | None, Manner] | None
    """Base model and weights of the version in use, and how it is asked; None: the base model stands for it."""
    max_length: int
    max_new_tokens: int
    manner: Manner = ASKED_PLAINLY
    """How the new version and its base are asked."""


Ask = Callable[[str, Manner, dict[str, Path | None]], dict[str, list[T]]]


def of_each(contest: Contest, ask: Ask[T]) -> dict[str, list[T]]:
    """What ``ask`` finds for a base model, asked in one manner, and the weights that are compared on it; it is called
    once for each of these. There is no "current" where no version is in use."""
    compared: dict[str, Path | None] = {"base": None, "new": contest.weights}
    if contest.current is None:
        return ask(contest.base_model, contest.manner, compared)
    base_model, weights, manner = contest.current
    if (base_model, manner) == (contest.base_model, contest.manner):
        return ask(base_model, manner, {**compared, "current": weights})
    return ask(contest.base_model, contest.manner, compared) | ask(base_model, manner, {"current": weights})
