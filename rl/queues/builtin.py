"""The queues that every agent has, made when they are first needed."""

from __future__ import annotations

from typing import Any

from rl.models import Agent, RatingQueue

ANSWERS, PAIRS, LABELS = "answers", "pairs", "labels"
BUILT_IN: dict[str, dict[str, Any]] = {
    ANSWERS: {"rubric": RatingQueue.Rubric.THUMBS},
    PAIRS: {"rubric": RatingQueue.Rubric.PAIR, "raters_per_item": 1},
    LABELS: {
        "rubric": RatingQueue.Rubric.THUMBS,
        "raters_per_item": 1,
        "filters": {"rated": False},
        "instructions": "Answers that nobody has rated yet.",
    },
}
"""Name to the fields in which a queue differs from an empty one."""


def queue_of(agent: Agent, name: str = ANSWERS) -> RatingQueue | None:
    """The agent's queue of this name, in whatever case; None where it has none of it."""
    queue = RatingQueue.objects.filter(agent=agent, name__iexact=name).first()
    if queue is None and name in BUILT_IN:
        queue, _ = RatingQueue.objects.get_or_create(agent=agent, name=name, defaults=BUILT_IN[name])
    if queue is not None:
        queue.agent = agent
    return queue


def open_queues(agent: Agent) -> list[RatingQueue]:
    """``answers`` first, then by name."""
    queue_of(agent, ANSWERS)
    queue_of(agent, PAIRS)
    queues = RatingQueue.objects.filter(agent=agent, closed_at__isnull=True).order_by("name")
    return sorted(queues, key=lambda queue: queue.name != ANSWERS)
