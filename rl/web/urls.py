"""Every address."""

from __future__ import annotations

from django.contrib.auth.views import LoginView, LogoutView
from django.urls import include, path

from rl.web.api.otlp import OtlpTraces
from rl.web.pages import dashboard, demo, experiments, labelling, rating, runs, talking, traces

urlpatterns = [
    path("", dashboard.dashboard, name="home"),
    path("rate/", rating.choose_agent, name="rate"),
    path("rate/<str:name>/", rating.rate_answers, name="rate_agent"),
    path("try/", talking.choose_agent, name="try"),
    path("try/<str:name>/", talking.talk, name="try_agent"),
    path("try/<str:name>/answer/", talking.answer, name="try_answer"),
    path("try/<str:name>/rating/", talking.rate_answer, name="try_rating"),
    path("try/<str:name>/before-and-after/", talking.before_and_after, name="before_and_after"),
    path("traces/", traces.trace_list, name="traces"),
    path("traces/<uuid:pk>/", traces.one_trace, name="trace"),
    path("traces/of/<str:name>/", traces.trace_statistics, name="trace_statistics"),
    path("traces/of/<str:name>/label/", labelling.label_traces, name="label_agent"),
    path("runs/<int:pk>/progress.json", runs.progress, name="run_progress"),
    path("experiments/", experiments.experiment_list, name="experiments"),
    path("experiments/<int:pk>/", experiments.one_experiment, name="experiment"),
    path("experiments/<int:pk>/look.json", experiments.look_json, name="experiment_look"),
    path("demo/", demo.embedded_widget, name="demo"),
    path("login/", LoginView.as_view(redirect_authenticated_user=True), name="login"),
    path("logout/", LogoutView.as_view(next_page="login"), name="logout"),
    path("api/", include("rl.web.api.urls")),
    path("v1/traces", OtlpTraces.as_view(), name="otlp-traces"),
]
