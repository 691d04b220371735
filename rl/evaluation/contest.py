"""Who is compared: a new version, its base model, and the version in use."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

MODELS = ("new", "base", "current")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Contest:
    base_model: str
    weights: Path
    """The new version's weights: an adapter, or a whole model."""
    current: tuple[str, Path] | None
    """Base model and weights of the version in use; None: the base model stands for it."""
    max_length: int
    max_new_tokens: int


def of_each(contest: Contest, ask: Callable[[str, dict[str, Path | None]], dict[str, list[T]]]) -> dict[str, list[T]]:
    """What ``ask`` finds for a base model and the weights that are compared on it; it is called once for each base model.
    There is no "current" where no version is in use."""
    compared: dict[str, Path | None] = {"base": None, "new": contest.weights}
    other = contest.current
    if other and other[0] == contest.base_model:
        compared["current"] = other[1]
    values = ask(contest.base_model, compared)
    if other and other[0] != contest.base_model:
        values |= ask(other[0], {"current": other[1]})
    return values
