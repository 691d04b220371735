"""Its addresses."""

from django.urls import path

from rl.from_systems.command_center.api import AnswerFeedback, BulkRatings, EntryRatings, RunHistory, Status

urlpatterns = [
    path("api/ratings/", EntryRatings.as_view(), name="command-center-ratings"),
    path("api/ratings/bulk/", BulkRatings.as_view(), name="command-center-ratings-bulk"),
    path("api/layer2/feedback/", AnswerFeedback.as_view(), name="command-center-answer-feedback"),
    path("api/layer2/rl-status/", Status.as_view(), name="command-center-rl-status"),
    path("api/layer2/rl-history/", RunHistory.as_view(), name="command-center-rl-history"),
]
