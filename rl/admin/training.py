"""Training sets, training runs and their metrics, in the admin; buttons that cancel and resume a run."""

from __future__ import annotations

from typing import Any

from django.contrib import admin, messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.urls import URLPattern
from django.utils.safestring import SafeString

from rl.admin.actions import button, queued_message
from rl.admin.episodes import run_episodes
from rl.admin.markup import badge, change_link, join_links, list_link, plain, value_table
from rl.admin.readonly import ReadOnlyAdmin
from rl.base.errors import UsageError
from rl.models import (
    Evaluation,
    Feedback,
    MetricPoint,
    ModelVersion,
    Trace,
    TrainingRun,
    TrainingSet,
    TrainingSetTrace,
)
from rl.runs import choosing, supervisor

CHANGE = "rl.change_trainingrun"


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
    readonly_fields = ["directory", "counts", "records"]

    @admin.display(description="id")
    def short_id(self, training_set: TrainingSet) -> str:
        return str(training_set.pk)[:8]

    @admin.display(description="counts, and what was left out")
    def counts(self, training_set: TrainingSet) -> SafeString | str:
        return value_table(training_set.stats)

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
    readonly_fields = ["of"]

    @admin.display(description="trace")
    def short_trace(self, member: TrainingSetTrace) -> str:
        return str(member.trace_id)[:8]

    @admin.display(description="trace")
    def of(self, member: TrainingSetTrace) -> SafeString | str:
        return change_link(Trace, member.trace_id, member.trace_id)


@admin.register(TrainingRun)
class TrainingRunAdmin(ReadOnlyAdmin):
    """The page of one run is a template of its own; it asks ``run_progress`` for what changes."""

    list_display = ["id", "agent", "method", "colour", "steps", "trigger", "version_link", "created_at", "finished_at"]
    list_filter = ["state", "method", "trigger", "agent"]
    list_select_related = ["agent", "version", "training_set"]
    search_fields = ["=id", "agent__name", "method", "error"]

    @admin.display(description="state", ordering="state")
    def colour(self, run: TrainingRun) -> SafeString:
        return badge(run.state, run.get_state_display())

    @admin.display(description="steps")
    def steps(self, run: TrainingRun) -> str:
        return f"{run.step} of {run.total_steps}" if run.total_steps else run.stage

    @admin.display(description="version")
    def version_link(self, run: TrainingRun) -> SafeString | str:
        return change_link(ModelVersion, run.version_id, run.version and run.version.name)

    def get_urls(self) -> list[URLPattern]:
        cancel, resume = button(self, "cancel", CHANGE, self.cancel), button(self, "resume", CHANGE, self.resume)
        return [cancel, resume, *super().get_urls()]

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        run = self.get_object(request, object_id)
        context = _run_context(run) if isinstance(run, TrainingRun) else {}
        context["may_change"] = request.user.has_perm(CHANGE)
        return super().change_view(request, object_id, form_url, {**context, **(extra_context or {})})

    def cancel(self, request: HttpRequest, pk: int) -> HttpResponse:
        run = get_object_or_404(TrainingRun, pk=pk)
        if not supervisor.cancel(run):
            messages.warning(request, f"Run {pk} is over already.")
        else:
            self.log_change(request, run, "Asked it to stop.")
            stopped = run.state == run.State.CANCELLED
            messages.success(request, f"Run {pk} {'is cancelled' if stopped else 'stops after its current step'}.")
        return redirect("admin:rl_trainingrun_change", pk)

    def resume(self, request: HttpRequest, pk: int) -> HttpResponse:
        run = get_object_or_404(TrainingRun, pk=pk)
        try:
            choosing.require_origins(run)
        except UsageError as error:
            messages.error(request, f"Run {pk} stays as it is: {error}.")
            return redirect("admin:rl_trainingrun_change", pk)
        if supervisor.requeue(run):
            supervisor.enqueue(run)
            self.log_change(request, run, "Asked it to go on.")
            messages.success(request, queued_message(run))
        else:
            messages.error(request, _why_it_stays(run))
        return redirect("admin:rl_trainingrun_change", pk)


def _why_it_stays(run: TrainingRun) -> str:
    if run.state not in run.RESUMABLE:
        return f"Run {run.pk} is {run.get_state_display()}: only one that failed or was cancelled is resumed."
    other = run.agent.runs.filter(state__in=run.ACTIVE).first()
    name = f"run {other.pk}" if other else "another run"  # which may have ended since
    return f"Run {run.pk} stays as it is: {run.agent.name} has {name} in progress; wait for it, or cancel it."


def _run_context(run: TrainingRun) -> dict[str, Any]:
    version = run.version
    return {
        "title": f"Run {run.pk}: {run.method} for {run.agent.name}",
        "resumable": run.state in run.RESUMABLE,
        "version": version,
        "episodes": run_episodes(run),
        "evaluation": version.evaluations.filter(artifact=None).defer("report").first() if version else None,
        "tables": [
            ("Hyper-parameters", [(name, plain(value)) for name, value in run.config.items()]),
            ("Options", [(name, plain(value)) for name, value in run.options.items()]),
            ("Hardware", [(name, plain(value)) for name, value in run.hardware.items()]),
        ],
    }


@admin.register(MetricPoint)
class MetricPointAdmin(ReadOnlyAdmin):
    list_display = ["id", "of_run", "step", "values"]
    search_fields = ["=run__id"]
    search_help_text = "The number of a run."
    ordering = ["-id"]
    fields = ["of_run", "step", "numbers"]
    readonly_fields = ["of_run", "numbers"]

    @admin.display(description="run")
    def of_run(self, point: MetricPoint) -> SafeString | str:
        return change_link(TrainingRun, point.run_id, f"run {point.run_id}")

    @admin.display(description="values")
    def numbers(self, point: MetricPoint) -> SafeString | str:
        return value_table(point.values)
