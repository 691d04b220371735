"""Its addresses."""

from django.urls import path, re_path, register_converter

from rl.web.api.agents import AgentDetail, AgentList, ExperimentDetail, ExperimentList
from rl.web.api.base import OriginCheck, UnknownAddress
from rl.web.api.feedback import ChoiceList, FeedbackDetail, FeedbackList, FeedbackRetract, OwnRatingRetract
from rl.web.api.feedback_writing import TokenList
from rl.web.api.lookups import AnswerConverter
from rl.web.api.problems import Description, DescriptionPage
from rl.web.api.ratings import RatingBulkSync, RatingList
from rl.web.api.traces import TraceDetail, TraceList
from rl.web.api.training import CalculatePending, RunCancel, RunDetail, RunEvents, RunList, TrainingStats
from rl.web.api.versions import InstructionList, RollBack, VersionDetail, VersionList, VersionPromote, VersionServe

register_converter(AnswerConverter, "answer")
urlpatterns = [
    path("v1/traces/", TraceList.as_view(), name="api-traces"),
    path("v1/tokens/", TokenList.as_view(), name="api-tokens"),
    path("v1/traces/<answer:pk>/", TraceDetail.as_view(), name="api-trace"),
    path("v1/feedback/", FeedbackList.as_view(), name="api-feedback"),
    path("v1/feedback/retract/", OwnRatingRetract.as_view(), name="api-feedback-retract-own"),
    path("v1/feedback/origin/", OriginCheck.as_view(), name="api-feedback-origin"),
    path("v1/feedback/choices/", ChoiceList.as_view(), name="api-feedback-choices"),
    path("v1/feedback/<int:pk>/", FeedbackDetail.as_view(), name="api-feedback-event"),
    path("v1/feedback/<int:pk>/retract/", FeedbackRetract.as_view(), name="api-feedback-retract"),
    path("v1/ratings/", RatingList.as_view(), name="api-ratings"),
    path("v1/ratings/sync/", RatingBulkSync.as_view(), name="api-ratings-sync"),
    path("v1/agents/", AgentList.as_view(), name="api-agents"),
    path("v1/agents/<str:agent>/", AgentDetail.as_view(), name="api-agent"),
    path("v1/experiments/", ExperimentList.as_view(), name="api-experiments"),
    path("v1/experiments/<int:pk>/", ExperimentDetail.as_view(), name="api-experiment"),
    path("v1/runs/", RunList.as_view(), name="api-runs"),
    path("v1/runs/<int:pk>/", RunDetail.as_view(), name="api-run"),
    path("v1/runs/<int:pk>/events/", RunEvents.as_view(), name="api-run-events"),
    path("v1/runs/<int:pk>/cancel/", RunCancel.as_view(), name="api-run-cancel"),
    path("v1/versions/", VersionList.as_view(), name="api-versions"),
    path("v1/versions/<int:pk>/", VersionDetail.as_view(), name="api-version"),
    path("v1/versions/<int:pk>/serve/", VersionServe.as_view(), name="api-version-serve"),
    path("v1/versions/<int:pk>/promote/", VersionPromote.as_view(), name="api-version-promote"),
    path("v1/roll-back/", RollBack.as_view(), name="api-roll-back"),
    path("v1/instructions/", InstructionList.as_view(), name="api-instructions"),
    path("training/calculate-pending/", CalculatePending.as_view(), name="api-calculate-pending"),
    path("training/stats/", TrainingStats.as_view(), name="api-training-stats"),
    path("schema/", Description.as_view(), name="api-schema"),
    path("docs/", DescriptionPage.as_view(), name="api-docs"),
    re_path(r"^[\s\S]+\Z", UnknownAddress.as_view()),  # <path:…> knows no line breaks
]
