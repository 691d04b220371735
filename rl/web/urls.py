from __future__ import annotations

from django.contrib.auth.views import LoginView, LogoutView
from django.urls import include, path

from rl.web.pages import dashboard, demo, health, rating, runs

urlpatterns = [
    path("", dashboard.dashboard, name="home"),
    path("rate/", rating.choose_agent, name="rate"),
    path("rate/<str:name>/", rating.rate_answers, name="rate_agent"),
    path("runs/<int:pk>/progress.json", runs.progress, name="run_progress"),
    path("demo/", demo.embedded_widget, name="demo"),
    path("healthz", health.healthz, name="healthz"),
    path("readyz", health.readyz, name="readyz"),
    path("login/", LoginView.as_view(redirect_authenticated_user=True), name="login"),
    path("logout/", LogoutView.as_view(next_page="login"), name="logout"),
    path("api/", include("rl.web.api.urls")),
]
