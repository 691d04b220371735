"""Langfuse's addresses, below the base URL that its SDKs are given."""

from django.urls import path

from rl.from_systems.langfuse.calls import EventBatch, Observations, ProjectList, ScoreList

urlpatterns = [
    path("api/public/otel/v1/traces", Observations.as_view(), name="langfuse-observations"),
    path("api/public/projects", ProjectList.as_view(), name="langfuse-projects"),
    path("api/public/scores", ScoreList.as_view(), name="langfuse-scores"),
    path("api/public/ingestion", EventBatch.as_view(), name="langfuse-events"),
]
