"""Agents."""

from typing import Any

from django.contrib import admin, messages
from django.contrib.auth.decorators import permission_required
from django.db.models import JSONField
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.urls import URLPattern, path, reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.views.decorators.http import require_POST

from rl.admin.access import AgentForm, ObjectFormField, decision_defaults, reward_defaults
from rl.admin.markup import NOTHING, badge, change_link, column, join_links, list_link, split_fieldsets
from rl.base.errors import RatchetError
from rl.config.authority import AGENT, Owner, owner
from rl.models import Agent, Arm, Deployment, Experiment, Feedback, ModelVersion, Trace, TrainingRun, TrainingSet
from rl.online_learner import OnlineLearner, how_to_enable
from rl.serving.promotion import roll_back

OUTCOME = ["state", "started_at", "stopped_at", "verdict", "reason", "own_page"]


def _is_draft(experiment: Experiment | None) -> bool:
    return experiment is None or experiment.state == Experiment.State.DRAFT


class ArmInline(admin.TabularInline):
    """Fixed once the experiment has started: users are on the arms."""

    model = Arm
    raw_id_fields = ["version"]
    fields = ["version", "best_of", "weight", "is_control", "is_stopped", "requests", "failures"]
    readonly_fields = ["is_stopped", "requests", "failures"]
    extra = 2

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return _is_draft(obj) and super().has_add_permission(request, obj)

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return _is_draft(obj) and super().has_change_permission(request, obj)

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return _is_draft(obj) and super().has_delete_permission(request, obj)


@admin.register(Experiment)
class ExperimentAdmin(admin.ModelAdmin):
    """Drafts are written here; they are started, ended and looked at on their own page. The question must not change while
    the answers come in: of a started experiment only ``automatic`` can be changed."""

    list_display = ["name", "agent", "metric", "state", "verdict", "started_at", "stopped_at", "own_page"]
    list_filter = ["state", "verdict", "agent"]
    list_select_related = ["agent"]
    search_fields = ["name", "agent__name"]
    show_full_result_count = False
    inlines = [ArmInline]

    def get_fields(self, request: HttpRequest, obj: Experiment | None = None) -> Any:
        return ["agent", "name", *Experiment.QUESTION, "automatic", *(OUTCOME if obj else [])]

    def get_readonly_fields(self, request: HttpRequest, obj: Experiment | None = None) -> list[str]:
        return [*OUTCOME, *([] if _is_draft(obj) else ["agent", "name", *Experiment.QUESTION])]

    @admin.display(description="page")
    def own_page(self, experiment: Experiment) -> SafeString:
        return format_html('<a href="{}">start, look, decide</a>', reverse("experiment", args=[experiment.pk]))


RETRAIN = "rl.add_trainingrun"
PROMOTE = "rl.change_deployment"


@admin.register(Agent)
class AgentAdmin(admin.ModelAdmin):
    list_display = ["name", "base_model", "pair_type", "online_learning", "min_samples_to_retrain", "records"]
    list_filter = ["online_learning", "pair_type", "preset"]
    search_fields = ["name", "description", "base_model"]
    show_full_result_count = False
    form = AgentForm
    readonly_fields = ["records", "created_at", "default_reward_weights", "default_decision_weights"]
    formfield_overrides = {JSONField: {"form_class": ObjectFormField}}
    fieldsets = split_fieldsets(
        {
            None: "name description records created_at",
            "The model": "base_model system_prompt context_length response_length thinks",
            "Training": "pair_type prompt_template answer_template preset training_overrides",
            "Raters": "second_answers rater_cap",
            "Rewards and labels": "reward_weights default_reward_weights decision_weights default_decision_weights "
            "answer_format answer_kind answer_values answer_schema keep_to_answers larger_agent unsure_below "
            "label_threshold auto_label_threshold",
            "Online learning": "online_learning min_samples_to_retrain retrain_interval_hours auto_export auto_deploy",
            "Gate and serving": "gate_margin promoted_by group_by guard_limits judge export_quantization deploy_target "
            "keep_versions",
        }
    )

    def get_readonly_fields(self, request: HttpRequest, obj: Agent | None = None) -> list[str]:
        """With those that only the operator may set, and those that nobody said anything about."""
        every = (field.name for field in Agent._meta.get_fields() if field.concrete)
        return [*self.readonly_fields, *(name for name in every if owner(AGENT, name) is Owner.OPERATOR)]

    @admin.display(description="records")
    def records(self, agent: Agent) -> SafeString | str:
        if agent.pk is None:
            return "none yet"
        models = {
            "traces": Trace,
            "feedback": Feedback,
            "training sets": TrainingSet,
            "runs": TrainingRun,
            "versions": ModelVersion,
            "deployments": Deployment,
        }
        return join_links(list_link(model, text, agent__id__exact=agent.pk) for text, model in models.items())

    default_reward_weights = column("default reward weights", lambda _: reward_defaults())
    default_decision_weights = column("default decision weights", lambda agent: decision_defaults(agent))

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """An agent with answers is history; and the page that asks would load all of it."""
        if isinstance(obj, Agent) and obj.traces.exists():
            return False
        return super().has_delete_permission(request, obj)

    def get_actions(self, request: HttpRequest) -> dict[str, Any]:
        return {name: action for name, action in super().get_actions(request).items() if name != "delete_selected"}

    def get_urls(self) -> list[URLPattern]:
        """``<pk>/retrain/`` and ``<pk>/roll_back/`` take a POST with a token, from staff with the permission."""
        urls = super().get_urls()
        for name, permission, view in (("retrain", RETRAIN, self.retrain), ("roll_back", PROMOTE, self.roll_back)):
            guarded = require_POST(permission_required(permission, raise_exception=True)(view))
            urls.insert(0, path(f"<int:pk>/{name}/", self.admin_site.admin_view(guarded), name=f"rl_agent_{name}"))
        return urls

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        agent = self.get_object(request, object_id)
        context = learner_context(agent) if isinstance(agent, Agent) else {}
        context["may_retrain"] = request.user.has_perm(RETRAIN)
        if isinstance(agent, Agent) and request.user.has_perm(PROMOTE):
            context["deployed"] = {row.alias: row.version_name for row in agent.deployments.exclude(alias="")}
        return super().change_view(request, object_id, form_url, {**context, **(extra_context or {})})

    def retrain(self, request: HttpRequest, pk: int) -> HttpResponse:
        agent = get_object_or_404(Agent, pk=pk)
        try:
            run = OnlineLearner(agent).trigger_retrain()
        except RatchetError as error:  # a run is in progress, or the agent's hyper-parameters do not fit together
            messages.error(request, f"No run was queued: {error}.")
            return redirect("admin:rl_agent_change", pk)
        self.log_change(request, agent, f"Queued run {run.pk}.")
        return redirect("run", run.pk)

    def roll_back(self, request: HttpRequest, pk: int) -> HttpResponse:
        agent = get_object_or_404(Agent, pk=pk)
        try:
            version = roll_back(agent)
        except RatchetError as error:
            messages.error(request, f"Nothing was rolled back: {error}.")
        else:
            text = f"In use now: {version.name if version else 'the base model'}."
            self.log_change(request, agent, text)
            messages.success(request, text)
        return redirect("admin:rl_agent_change", pk)


def learner_context(agent: Agent) -> dict[str, Any]:
    """Does not look for pairs: that reads all ratings of the agent, and a page must not wait for it."""
    status, missing, last = OnlineLearner(agent).get_status(survey=False), how_to_enable(agent), NOTHING
    if status.last_run is not None and status.last_run_state is not None:
        link = change_link(TrainingRun, status.last_run, f"run {status.last_run}")
        last = join_links([link, badge(status.last_run_state, TrainingRun.State(status.last_run_state).label)])
    interval = status.next_by_interval
    rows = [
        ("Retrains by itself", f"no: {missing}" if missing else "yes"),
        ("New ratings", f"{status.buffer_size} of the {status.min_samples} that start a run"),
        ("A run is at work", "yes" if status.is_training else "no"),
        ("Run due", f"yes: {status.reason}" if status.should_retrain else f"no: {status.reason}"),
        ("Last run", last),
        ("Next by the interval", f"{interval:%Y-%m-%d %H:%M} UTC" if interval else NOTHING),
    ]
    return {"learner": status, "learner_rows": rows}
