"""OCD's own addresses, which end without a slash, and those that take its decisions in, which end with one as all here."""

from django.urls import path

from rl.from_systems.ocd.calls import training
from rl.from_systems.ocd.calls.decisions import DecisionBulk, DecisionFeedback, DecisionList, DecisionOutcomes
from rl.from_systems.ocd.calls.training import OcdFeedback, StatusChangeFeedback

urlpatterns = [
    path("api/decisions/", DecisionList.as_view(), name="api-decisions"),
    path("api/decisions/bulk/", DecisionBulk.as_view(), name="api-decisions-bulk"),
    path("api/decisions/<path:pk>/feedback/", DecisionFeedback.as_view(), name="api-decision-feedback"),
    path("api/decisions/<path:pk>/outcomes/", DecisionOutcomes.as_view(), name="api-decision-outcomes"),
    path("api/decisions/<path:pk>/feedback", OcdFeedback.as_view(), name="ocd-feedback"),
    path("api/status-changes/<path:pk>/feedback", StatusChangeFeedback.as_view(), name="ocd-status-change-feedback"),
    path("api/training/decisions", training.TrainingDecisions.as_view(), name="ocd-decisions"),
    path("api/training/calculate-pending", training.PendingRewards.as_view(), name="ocd-calculate-pending"),
    path("api/training/outcomes", training.Outcomes.as_view(), name="ocd-outcomes"),
    path("api/training/track-outcomes", training.TrackOutcomes.as_view(), name="ocd-track-outcomes"),
    path("api/training/stats", training.DecisionStats.as_view(), name="ocd-stats"),
    path("api/training/ab-test", training.CompareVersions.as_view(), name="ocd-ab-test"),
    path("api/training/export", training.ExportMessages.as_view(), name="ocd-export"),
    path("api/training/export-file", training.ExportFile.as_view(), name="ocd-export-file"),
]
