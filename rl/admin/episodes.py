"""Episodes."""

from __future__ import annotations

from django.contrib import admin
from django.utils.safestring import SafeString

from rl.admin.markup import badge, change_link, column
from rl.admin.readonly import ReadOnlyAdmin
from rl.models import Episode, Trace, TrainingRun


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

    @admin.display(description="ended", ordering="success")
    def outcome(self, episode: Episode) -> SafeString:
        return badge("succeeded" if episode.success else "failed", "solved" if episode.success else "not solved")

    of = column("trace", lambda episode: change_link(Trace, episode.trace_id, episode.trace_id))
    of_run = column("run", lambda episode: change_link(TrainingRun, episode.run_id, f"run {episode.run_id}"))
