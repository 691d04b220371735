"""Deployments, experiments."""

from __future__ import annotations

from django.contrib import admin
from django.utils.safestring import SafeString

from rl.admin.markup import change_link
from rl.admin.readonly import ReadOnlyAdmin
from rl.models import Deployment, ModelVersion


@admin.register(Deployment)
class DeploymentAdmin(ReadOnlyAdmin):
    list_display = ["id", "agent", "of_version", "alias", "target", "model_name", "created_at"]
    list_filter = ["alias", "target", "agent"]
    list_select_related = ["agent", "version"]
    search_fields = ["model_name", "agent__name", "version__name"]
    fields = [
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
    readonly_fields = ["of_version"]

    @admin.display(description="version")
    def of_version(self, deployment: Deployment) -> SafeString | str:
        if deployment.version is None:
            return "base model"
        return change_link(ModelVersion, deployment.version_id, deployment.version.name)
