"""The list of records by what they are about, in the order in which data becomes a version in use. It cannot stand in
``rl.admin``, which registers its records at the site while it is imported.
"""

from typing import Any, Final

from django.contrib.admin import AdminSite
from django.http import HttpRequest

APP: Final = "rl"
GROUPS: Final = {
    "Agents and access": ("Agent", "ApiKey"),
    "What came in": ("Trace", "Feedback", "WaitingRating", "Episode"),
    "Rating": ("RatingQueue", "Invite", "GoldItem", "Claim", "AnswerPair", "Quarantine"),
    "Labels of models": ("LabelModel", "LabelProposal", "FollowUpLabel"),
    "Training": ("TrainingRun", "MetricPoint", "TrainingSet", "TrainingSetTrace", "TuningJob", "UploadedFile"),
    "Versions": ("ModelVersion", "Evaluation", "Artifact"),
    "In use": ("Deployment", "Experiment"),
    "Operation": ("AuditEvent", "WebhookDelivery"),
}


class RatchetAdminSite(AdminSite):
    site_header = site_title = "Ratchet"

    def get_app_list(self, request: HttpRequest, app_label: str | None = None) -> list[Any]:
        apps = super().get_app_list(request, app_label)
        ours = [group for app in apps if app["app_label"] == APP for group in _split(app)]
        return [*ours, *(app for app in apps if app["app_label"] != APP)]


def _split(app: dict[str, Any]) -> list[dict[str, Any]]:
    """One for each group of which somebody may see a record. What no group names comes last, under the app's own name."""
    models = {model["object_name"]: model for model in app["models"]}
    groups = {title: [models.pop(name) for name in names if name in models] for title, names in GROUPS.items()}
    groups[app["name"]] = list(models.values())
    return [{**app, "name": title, "models": rows} for title, rows in groups.items() if rows]
