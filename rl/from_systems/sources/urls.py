"""Where systems send what was said at once."""

from django.urls import path

from rl.from_systems.sources.calls import FeedbackRows

urlpatterns = [path("api/openwebui/feedback/", FeedbackRows.as_view(), name="openwebui-feedback")]
