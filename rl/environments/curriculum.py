"""In which order an agent meets its tasks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

SOMETIMES, UNTRIED, NEVER, ALWAYS = "sometimes solved", "never tried", "never solved", "always solved"
ORDER = (SOMETIMES, UNTRIED, NEVER, ALWAYS)
"""A group whose episodes all end alike teaches nothing: first the tasks that do teach, then those of which nobody knows."""
Task = Mapping[str, Any]


def hardest_first(tasks: Iterable[Task], rates: Mapping[str, float]) -> list[Task]:
    """``rates``: task_id to the share of its episodes that solved it, 0 to 1; one that was never tried has none. Within
    SOMETIMES the hardest comes first; equals stay in the order given."""

    def rank(task: Task) -> tuple[int, float]:
        rate = rates.get(task["task_id"])
        return ORDER.index(_kind(rate)), rate or 0.0

    return sorted(tasks, key=rank)


def census(tasks: Iterable[Task], rates: Mapping[str, float]) -> Counter[str]:
    """How many tasks of each kind of ORDER there are."""
    return Counter(_kind(rates.get(task["task_id"])) for task in tasks)


def _kind(rate: float | None) -> str:
    if rate is None:
        return UNTRIED
    return NEVER if rate <= 0 else ALWAYS if rate >= 1 else SOMETIMES
