from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.forms import ModelForm
from django.http import HttpRequest
from django.utils import timezone
from django.utils.safestring import SafeString

from rl.admin.markup import change_link, list_link
from rl.admin.readonly import ReadOnlyAdmin
from rl.models import Arm, Assignment, Deployment, Experiment, ModelVersion


@admin.register(Deployment)
class DeploymentAdmin(ReadOnlyAdmin):
    list_display = ["id", "agent", "of_version", "alias", "target", "model_name", "created_at"]
    list_filter = ["alias", "target", "agent"]
    list_select_related = ["agent", "version"]
    search_fields = ["model_name", "agent__name", "version__name"]
    fields = ["agent", "of_version", "alias", "target", "model_name", "created_at"]
    readonly_fields = ["of_version"]

    @admin.display(description="version")
    def of_version(self, deployment: Deployment) -> SafeString | str:
        return change_link(ModelVersion, deployment.version_id, deployment.version.name)


class ArmInline(admin.TabularInline):
    model = Arm
    raw_id_fields = ["version"]
    extra = 2


@admin.register(Experiment)
class ExperimentAdmin(admin.ModelAdmin):
    list_display = ["name", "agent", "state", "started_at", "stopped_at"]
    list_filter = ["state", "agent"]
    list_select_related = ["agent"]
    search_fields = ["name", "agent__name"]
    show_full_result_count = False
    fields = ["agent", "name", "state", "started_at", "stopped_at", "assigned"]
    readonly_fields = ["started_at", "stopped_at", "assigned"]
    inlines = [ArmInline]

    @admin.display(description="assignments")
    def assigned(self, experiment: Experiment) -> SafeString | str:
        if experiment.pk is None:
            return "none yet"
        return list_link(Assignment, "who got what", experiment__id__exact=experiment.pk)

    def save_model(self, request: HttpRequest, obj: Experiment, form: ModelForm[Any], change: bool) -> None:
        if obj.state == obj.State.RUNNING and obj.started_at is None:
            obj.started_at = timezone.now()
        if obj.state == obj.State.STOPPED and obj.stopped_at is None:
            obj.stopped_at = timezone.now()
        super().save_model(request, obj, form, change)


@admin.register(Arm)
class ArmAdmin(ReadOnlyAdmin):
    """Arms are edited on the page of their experiment."""

    list_display = ["id", "experiment", "of_version", "weight"]
    list_select_related = ["experiment", "version"]
    search_fields = ["experiment__name", "version__name"]

    @admin.display(description="version")
    def of_version(self, arm: Arm) -> SafeString | str:
        return change_link(ModelVersion, arm.version_id, arm.version.name) if arm.version else "base model"


@admin.register(Assignment)
class AssignmentAdmin(ReadOnlyAdmin):
    list_display = ["unit", "experiment", "of_arm", "created_at"]
    list_select_related = ["experiment"]
    search_fields = ["=unit", "experiment__name"]
    fields = ["unit", "experiment", "of_arm", "created_at"]
    readonly_fields = ["of_arm"]

    @admin.display(description="arm")
    def of_arm(self, assignment: Assignment) -> SafeString | str:
        return change_link(Arm, assignment.arm_id, f"arm {assignment.arm_id}")
