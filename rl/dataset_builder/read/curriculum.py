"""Tasks by how often the agent solved them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from django.db.models import Avg, Case, F, FloatField, Value, When, Window
from django.db.models.functions import RowNumber

from rl.collect.traces.episodes import stored_task_id
from rl.dataset_builder.rows.tasks import TaskSource
from rl.environments.curriculum import ORDER, census, hardest_first
from rl.models import Agent, Episode

NEWEST = 16
"""Episodes of a task that count."""
_COUNTED = (Episode.Split.TRAIN, Episode.Split.NONE)


def by_success(agent: Agent, source: TaskSource) -> TaskSource:
    """Its tasks to train on in the order of ``hardest_first``, and a sentence about that."""
    rates = measured_rates(agent, source)
    if not rates:
        remark = f"no task of {agent.name} has been measured yet: they come in the order of the file"
        return replace(source, remarks=(*source.remarks, remark))
    kinds = census(source.train, rates)
    remark = "curriculum: " + ", then ".join(f"{kinds[kind]} {kind}" for kind in ORDER if kinds[kind])
    return replace(source, train=hardest_first(source.train, rates), remarks=(*source.remarks, remark))


def measured_rates(agent: Agent, source: TaskSource) -> dict[str, float]:
    """For each task to train on that has episodes in this environment: task_id to the share of its newest episodes that
    solved it. Held-out episodes do not count, nor those whose world broke."""
    stored = _success_rates(agent, source.settings.type)
    ids = {str(task["task_id"]): stored_task_id(str(task["task_id"])) for task in source.train}
    return {task_id: stored[stored_id] for task_id, stored_id in ids.items() if stored_id in stored}


def _success_rates(agent: Agent, environment: str) -> Mapping[str, float]:
    """One query."""
    rank = Window(RowNumber(), partition_by=F("task_id"), order_by=F("id").desc())
    episodes = agent.episodes.filter(environment=environment, split__in=_COUNTED, reward__isnull=False).order_by()
    newest = episodes.annotate(rank=rank).filter(rank__lte=NEWEST)
    solved = Case(When(success=True, then=Value(1.0)), default=Value(0.0), output_field=FloatField())
    of_tasks = Episode.objects.filter(pk__in=newest.values("pk")).order_by().values("task_id")
    return dict(of_tasks.annotate(rate=Avg(solved)).values_list("task_id", "rate"))
