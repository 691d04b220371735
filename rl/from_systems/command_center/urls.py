"""Its addresses."""

from __future__ import annotations

from django.urls import path

from rl.from_systems.command_center.api import AnswerFeedback, BulkRatings, Ratings

urlpatterns = [
    path("api/ratings/", Ratings.as_view(), name="command-center-ratings"),
    path("api/ratings/bulk/", BulkRatings.as_view(), name="command-center-ratings-bulk"),
    path("api/layer2/feedback/", AnswerFeedback.as_view(), name="command-center-answer-feedback"),
]
