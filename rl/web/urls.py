"""Every address."""

from django.contrib.auth.views import LogoutView
from django.urls import include, path, re_path

from rl.web import sign_in
from rl.web.api.otlp import OtlpTraces
from rl.web.pages import dashboard, queue_settings, rating, run_new, runs, talking, traces, versions

urlpatterns = [
    path("", dashboard.dashboard, name="home"),
    path("rate/", rating.choose_queue, name="rate"),
    re_path(r"^rate/by/(?P<token>[^/:]+:[^/]+)/\Z", rating.follow_link, name="rate_by_invite"),
    path("rate/held-back/", queue_settings.held_back, name="held_back"),
    path("rate/<str:name>/", rating.rate_items, name="rate_agent"),
    path("rate/<str:name>/<str:queue>/", rating.rate_items, name="rate_queue"),
    path("rate/<str:name>/<str:queue>/raters/", queue_settings.queue_raters, name="queue_raters"),
    path("rate/<str:name>/<str:queue>/decisions/", rating.store_decisions, name="rate_decisions"),
    path("rate/<str:name>/<str:queue>/items/<int:claim>/", rating.what_happened, name="rate_happened"),
    path("rate/<str:name>/<str:queue>/settings/", queue_settings.edit_queue, name="queue_settings"),
    path("try/", talking.choose_agent, name="try"),
    path("try/<str:name>/", talking.talk, name="try_agent"),
    path("try/<str:name>/answer/", talking.answer, name="try_answer"),
    path("try/<str:name>/pairs/", talking.draw, name="try_draw"),
    path("try/<str:name>/pairs/<uuid:pair>/<str:side>/", talking.answer_side, name="try_side"),
    path("try/<str:name>/vote/", talking.vote, name="try_vote"),
    path("try/<str:name>/train/", talking.train, name="try_train"),
    path("try/<str:name>/answers/<uuid:trace>/", talking.answer_form, name="try_answer_form"),
    path("try/<str:name>/rating/", talking.rate_answer, name="try_rating"),
    path("try/<str:name>/formatted/", talking.format_answer, name="try_format"),
    path("try/<str:name>/own-questions/", talking.own_questions, name="try_own_questions"),
    path("try/<str:name>/before-and-after/", talking.before_and_after, name="before_and_after"),
    path("traces/", traces.trace_list, name="traces"),
    path("traces/picked/", traces.act_on_picked, name="traces_picked"),
    path("traces/<uuid:pk>/", traces.one_trace, name="trace"),
    path("traces/of/<str:name>/", traces.trace_statistics, name="trace_statistics"),
    path("traces/of/<str:name>/label/", dashboard.label_traces, name="label_agent"),
    path("runs/", runs.run_list, name="runs"),
    path("runs/new/", run_new.new_run, name="run_new"),
    path("runs/plan.json", run_new.plan, name="run_plan"),
    path("runs/plan/rows/", run_new.planned_rows, name="run_plan_rows"),
    path("runs/compare/", runs.compare, name="run_compare"),
    path("runs/<int:pk>/", runs.one_run, name="run"),
    path("runs/<int:pk>/rows/", runs.learned_rows, name="run_rows"),
    path("runs/<int:pk>/progress.json", runs.progress, name="run_progress"),
    path("agents/", dashboard.agent_list, name="agents"),
    path("agents/<str:name>/", dashboard.one_agent, name="agent"),
    path("versions/<str:agent>/<str:name>/", versions.one_version, name="version"),
    path("versions/<str:agent>/<str:name>/files/<int:pk>/<str:file>", versions.download, name="version_file"),
    path("experiments/", versions.experiment_list, name="experiments"),
    path("experiments/versions/<str:name>/", queue_settings.version_table, name="version_table"),
    path("experiments/<int:pk>/", versions.one_experiment, name="experiment"),
    path("experiments/<int:pk>/look.json", versions.look_json, name="experiment_look"),
    path("demo/", dashboard.embedded_widget, name="demo"),
    path("login/", sign_in.SignIn.as_view(), name="login"),
    path("logout/", LogoutView.as_view(next_page="login"), name="logout"),
    path("api/", include("rl.web.api.urls")),
    path("v1/traces", OtlpTraces.as_view(), name="otlp-traces"),
]
