"""How the tasks of a run went, for its page."""

from __future__ import annotations

from typing import Any

from rl.models import TrainingRun
from rl.runs.episode_rates import TaskRate, number_of_tasks, success_rates, task_rates
from rl.web.sparkline import sparkline


def run_episodes(run: TrainingRun) -> dict[str, Any] | None:
    """What the page of a run shows about its episodes; None where it has none. Eight queries, one where there is none."""
    rates = success_rates(run)
    if not rates:
        return None
    steps = sorted({rate.step for of_split in rates.values() for rate in of_split}, reverse=True)
    at = {split: {rate.step: rate for rate in of_split} for split, of_split in rates.items()}
    tasks = task_rates(run)
    return {
        "numbers": [(step, at.get("train", {}).get(step), at.get("eval", {}).get(step)) for step in steps],
        "tasks": [{"rate": task, "spark": _draw(task, max(steps[0], 1))} for task in tasks],
        "number_of_tasks": number_of_tasks(run),
        "step": steps[0],
    }


def _draw(task: TaskRate, last_step: int) -> str:
    return sparkline([(rate.step, rate.value) for rate in task.over_time], last_step, 0, 1)
