"""Episodes."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.utils.safestring import SafeString

from rl.admin.markup import badge, change_link
from rl.admin.readonly import ReadOnlyAdmin
from rl.models import Episode, Trace, TrainingRun
from rl.runs.episode_rates import TaskRate, number_of_tasks, success_rates, task_rates

SPARK_WIDTH, SPARK_HEIGHT, SPARK_EDGE = 96, 24, 3


@admin.register(Episode)
class EpisodeAdmin(ReadOnlyAdmin):
    list_display = [
        "id",
        "task_id",
        "agent",
        "outcome",
        "reward",
        "turns",
        "of_run",
        "split",
        "step",
        "sample",
        "created_at",
    ]
    list_filter = ["success", "split", "agent"]
    list_select_related = ["agent"]
    search_fields = ["=task_id", "=run__id"]
    search_help_text = "A whole task id, or the number of a run."
    fields = [
        "agent",
        "of",
        "of_run",
        "split",
        "step",
        "task_id",
        "sample",
        "environment",
        "reward",
        "success",
        "turns",
        "reason",
        "created_at",
    ]
    readonly_fields = ["of", "of_run"]

    @admin.display(description="ended", ordering="success")
    def outcome(self, episode: Episode) -> SafeString:
        return badge("succeeded" if episode.success else "failed", "solved" if episode.success else "not solved")

    @admin.display(description="trace")
    def of(self, episode: Episode) -> SafeString | str:
        return change_link(Trace, episode.trace_id, episode.trace_id)

    @admin.display(description="run")
    def of_run(self, episode: Episode) -> SafeString | str:
        return change_link(TrainingRun, episode.run_id, f"run {episode.run_id}")


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
        "tasks": [{"rate": task, "spark": _spark(task, max(steps[0], 1))} for task in tasks],
        "number_of_tasks": number_of_tasks(run),
        "step": steps[0],
    }


def _spark(task: TaskRate, last_step: int) -> str:
    """The points of a polyline; a single rate is a short dash."""
    height = SPARK_HEIGHT - 2 * SPARK_EDGE
    width = SPARK_WIDTH - 2 * SPARK_EDGE
    points = [
        (SPARK_EDGE + width * rate.step / last_step, SPARK_EDGE + height * (1 - rate.value)) for rate in task.over_time
    ]
    if len(points) == 1:
        [(x, y)] = points
        points = [(x - SPARK_EDGE, y), (x + SPARK_EDGE, y)]
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
