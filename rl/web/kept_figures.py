"""What a process knows of agents, so that a page need not find it out at each look: figures that take seconds to count, as
those of a million answers do, and what people's words on answers come to. What is counted quickly is as it is now."""

import logging
import time
from collections.abc import Callable, Hashable, Mapping
from threading import Thread
from typing import Any, Final, TypeVar

from django.db import connections

from rl.collect.feedback.judged_answers import kind_of_answers
from rl.collect.feedback.kept_answers import AgentReader, read_kept_answers
from rl.dataset_builder import get_training_stats
from rl.models import Agent

log = logging.getLogger(__name__)
SECONDS: Final = 60.0
OLDEST: Final = 600.0
LARGE: Final = 2_000
"""Answers, or ratings, from which on an agent's figures are kept."""
KINDS: Final = AgentReader(kind_of_answers, ("answer_kind",))
"""What the answers of each agent are, by this process."""
KEPT: Final = AgentReader(read_kept_answers)
"""What they are kept to."""
Figures = TypeVar("Figures")
_kept: dict[Hashable, tuple[float, Any]] = {}
"""Key to when the figures were counted, and these."""
_counting: set[Hashable] = set()


def keep(key: Hashable, count: Callable[[], Figures], size: Callable[[Figures], int]) -> Figures:
    """``size``: how many answers the figures are of. Those of many that are older than SECONDS are shown once more while
    they are counted anew; nobody sees any that are older than OLDEST."""
    at, kept = _kept.get(key, (-OLDEST, None))
    age = time.monotonic() - at
    if age >= OLDEST:
        return _count(key, count, size)
    if age >= SECONDS and key not in _counting:
        _counting.add(key)
        Thread(target=_count_behind, args=(key, count, size), name="figures", daemon=True).start()
    figures: Figures = kept
    return figures


def _count(key: Hashable, count: Callable[[], Figures], size: Callable[[Figures], int]) -> Figures:
    figures = count()
    if size(figures) >= LARGE:
        _kept[key] = time.monotonic(), figures
    return figures


def _count_behind(key: Hashable, count: Callable[[], Figures], size: Callable[[Figures], int]) -> None:
    try:
        _count(key, count, size)
    except Exception:
        log.exception("the figures %s cannot be counted anew", key)
    finally:
        _counting.discard(key)
        connections.close_all()


def training_stats(agent: Agent) -> dict[str, Any]:
    """What ``get_training_stats`` counts."""
    return keep(("stats", agent.pk), lambda: get_training_stats(agent.name), size_of)


def size_of(stats: Mapping[str, Any]) -> int:
    """How many answers, or ratings, ``get_training_stats`` counted."""
    return max(stats["traces"], stats["ratings"])
