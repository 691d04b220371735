"""What a process knows of agents, so that a page need not find it out at each look: figures that take seconds to count, as
those of a million answers do, and what people's words on answers come to. What is counted quickly is as it is now."""

import time
from collections.abc import Callable, Hashable, Mapping
from typing import Any, Final, TypeVar

from rl.collect.feedback.judged_answers import kind_of_answers
from rl.collect.feedback.kept_answers import AgentReader, read_kept_answers
from rl.dataset_builder import get_training_stats
from rl.models import Agent

SECONDS: Final = 60.0
LARGE: Final = 2_000
"""Answers, or ratings, from which on an agent's figures are kept."""
KINDS: Final = AgentReader(kind_of_answers, ("answer_kind",))
"""What the answers of each agent are, by this process."""
KEPT: Final = AgentReader(read_kept_answers)
"""What they are kept to."""
Figures = TypeVar("Figures")
_kept: dict[Hashable, tuple[float, Any]] = {}


def keep(key: Hashable, count: Callable[[], Figures], size: Callable[[Figures], int]) -> Figures:
    """``size``: how many answers the figures are of. Those of many are at most SECONDS old."""
    until, kept = _kept.get(key, (0.0, None))
    if time.monotonic() < until:
        figures: Figures = kept
        return figures
    figures = count()
    if size(figures) >= LARGE:
        _kept[key] = time.monotonic() + SECONDS, figures
    return figures


def training_stats(agent: Agent) -> dict[str, Any]:
    """What ``get_training_stats`` counts."""
    return keep(("stats", agent.pk), lambda: get_training_stats(agent.name), size_of)


def size_of(stats: Mapping[str, Any]) -> int:
    """How many answers, or ratings, ``get_training_stats`` counted."""
    return max(stats["traces"], stats["ratings"])
