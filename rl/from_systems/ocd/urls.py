"""OCD's addresses, which end without a slash, and those of its decisions here, which end with one."""

from __future__ import annotations

from django.urls import path

from rl.from_systems.ocd.calls.decisions import DecisionBulk, DecisionFeedback, DecisionList, DecisionOutcomes

urlpatterns = [
    path("api/decisions/", DecisionList.as_view(), name="api-decisions"),
    path("api/decisions/bulk/", DecisionBulk.as_view(), name="api-decisions-bulk"),
    path("api/decisions/<path:pk>/feedback/", DecisionFeedback.as_view(), name="api-decision-feedback"),
    path("api/decisions/<path:pk>/outcomes/", DecisionOutcomes.as_view(), name="api-decision-outcomes"),
]
