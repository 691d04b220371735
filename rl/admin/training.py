"""Training sets, training runs and their metrics, in the admin."""

from __future__ import annotations

from django.contrib import admin
from django.utils.safestring import SafeString

from rl.admin.markup import badge, change_link, column, join_links, list_link, value_table
from rl.admin.readonly import ReadOnlyAdmin
from rl.models import Evaluation, Feedback, MetricPoint, ModelVersion, Trace, TrainingRun, TrainingSet, TrainingSetTrace


@admin.register(TrainingSet)
class TrainingSetAdmin(ReadOnlyAdmin):
    list_display = [
        "short_id",
        "agent",
        "method",
        "pair_type",
        "train_rows",
        "heldout_rows",
        "feedback_count",
        "created_at",
    ]
    list_filter = ["method", "agent", "created_at"]
    list_select_related = ["agent"]
    search_fields = ["id__startswith", "agent__name", "=content_hash"]
    fields = [
        "id",
        "agent",
        "method",
        "pair_type",
        "source",
        "train_rows",
        "heldout_rows",
        "val_split",
        "feedback_count",
        "content_hash",
        "directory",
        "counts",
        "records",
        "created_at",
    ]

    short_id = column("id", lambda training_set: str(training_set.pk)[:8])
    counts = column("counts, and what was left out", lambda training_set: value_table(training_set.stats))

    @admin.display(description="records")
    def records(self, training_set: TrainingSet) -> SafeString:
        models = {
            "runs": TrainingRun,
            "evaluations": Evaluation,
            "feedback it was the first to see": Feedback,
            "traces in its rows": TrainingSetTrace,
        }
        pk = training_set.pk
        return join_links(list_link(model, text, training_set__id__exact=pk) for text, model in models.items())


@admin.register(TrainingSetTrace)
class TrainingSetTraceAdmin(ReadOnlyAdmin):
    list_display = ["id", "training_set", "short_trace"]
    list_select_related = ["training_set"]
    search_fields = ["training_set__id__startswith", "trace__id__startswith"]
    fields = ["training_set", "of"]

    short_trace = column("trace", lambda member: str(member.trace_id)[:8])
    of = column("trace", lambda member: change_link(Trace, member.trace_id, member.trace_id))


@admin.register(TrainingRun)
class TrainingRunAdmin(ReadOnlyAdmin):
    """The raw record; people follow and end a run on its page of the site."""

    list_display = ["id", "agent", "method", "colour", "steps", "starter", "version_link", "created_at", "finished_at"]
    list_filter = ["state", "method", "trigger", "agent"]
    list_select_related = ["agent", "version", "training_set"]
    search_fields = ["=id", "agent__name", "method", "error"]

    colour = column("state", lambda run: badge(run.state, run.get_state_display()), ordering="state")
    steps = column("steps", lambda run: f"{run.step} of {run.total_steps}" if run.total_steps else run.stage)
    starter = column("started", lambda run: run.starter, ordering="trigger")

    @admin.display(description="version")
    def version_link(self, run: TrainingRun) -> SafeString | str:
        return change_link(ModelVersion, run.version_id, run.version and run.version.name)


@admin.register(MetricPoint)
class MetricPointAdmin(ReadOnlyAdmin):
    list_display = ["id", "of_run", "step", "values"]
    search_fields = ["=run__id"]
    search_help_text = "The number of a run."
    ordering = ["-id"]
    fields = ["of_run", "step", "numbers"]

    of_run = column("run", lambda point: change_link(TrainingRun, point.run_id, f"run {point.run_id}"))
    numbers = column("values", lambda point: value_table(point.values))
