"""Deployments, experiments."""

from __future__ import annotations

from django.contrib import admin
from django.utils.safestring import SafeString

from rl.admin.markup import change_link
from rl.admin.readonly import ReadOnlyAdmin
from rl.models import Deployment, ModelVersion

_FACTS = [
    "agent",
    "of_version",
    "alias",
    "target",
    "model_name",
    "created_at",
    "url",
    "api_key_env",
    "path",
    "sha256",
    "settings",
    "host",
    "pid",
]


@admin.register(Deployment)
class DeploymentAdmin(ReadOnlyAdmin):
    """Made and taken away by commands; how many answers are asked for is chosen here too."""

    list_display = ["id", "agent", "of_version", "alias", "target", "model_name", "best_of", "created_at"]
    list_filter = ["alias", "target", "agent"]
    list_select_related = ["agent", "version"]
    search_fields = ["model_name", "agent__name", "version__name"]
    fields = ["best_of", *_FACTS]
    readonly_fields = _FACTS

    has_change_permission = admin.ModelAdmin.has_change_permission

    @admin.display(description="version")
    def of_version(self, deployment: Deployment) -> SafeString | str:
        if deployment.version is None:
            return "base model"
        return change_link(ModelVersion, deployment.version_id, deployment.version.name)
