"""Experiments with their arms."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from rl.models import Arm, Experiment

OUTCOME = ["state", "started_at", "stopped_at", "verdict", "reason", "own_page"]


def _is_draft(experiment: Experiment | None) -> bool:
    return experiment is None or experiment.state == Experiment.State.DRAFT


class ArmInline(admin.TabularInline):
    """Fixed once the experiment has started: users are on them."""

    model = Arm
    raw_id_fields = ["version"]
    fields = ["version", "best_of", "weight", "is_control", "is_stopped", "requests", "failures"]
    readonly_fields = ["is_stopped", "requests", "failures"]
    extra = 2

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return _is_draft(obj) and super().has_add_permission(request, obj)

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return _is_draft(obj) and super().has_change_permission(request, obj)

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return _is_draft(obj) and super().has_delete_permission(request, obj)


@admin.register(Experiment)
class ExperimentAdmin(admin.ModelAdmin):
    """Drafts are written here; they are started, ended and looked at on their own page. The question must not change while
    the answers come in: of a started experiment only ``automatic`` can be changed."""

    list_display = ["name", "agent", "metric", "state", "verdict", "started_at", "stopped_at", "own_page"]
    list_filter = ["state", "verdict", "agent"]
    list_select_related = ["agent"]
    search_fields = ["name", "agent__name"]
    show_full_result_count = False
    inlines = [ArmInline]

    def get_fields(self, request: HttpRequest, obj: Experiment | None = None) -> Any:
        return ["agent", "name", *Experiment.QUESTION, "automatic", *(OUTCOME if obj else [])]

    def get_readonly_fields(self, request: HttpRequest, obj: Experiment | None = None) -> list[str]:
        return [*OUTCOME, *([] if _is_draft(obj) else ["agent", "name", *Experiment.QUESTION])]

    @admin.display(description="page")
    def own_page(self, experiment: Experiment) -> SafeString:
        return format_html('<a href="{}">start, look, decide</a>', reverse("experiment", args=[experiment.pk]))
