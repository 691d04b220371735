"""Tables of what happened, to look at: one entry each."""

from typing import Any

from axes.models import AccessAttempt
from django.contrib import admin, messages
from django.db.models import Model, QuerySet
from django.http import HttpRequest
from django.template.defaultfilters import filesizeformat
from django.utils.safestring import SafeString
from django_q import admin as stock  # registers its own first
from django_q.models import Failure, OrmQ, Schedule, Success

from rl import models
from rl.admin.markup import (
    ReadOnlyAdmin,
    badge,
    change_link,
    column,
    join_links,
    link_column,
    list_link,
    percent,
    records,
    value_table,
)
from rl.operations.webhooks.delivering import send_again

records(
    models.Episode,
    show="id task_id agent outcome reward turns of_run split step sample created_at",
    filter="success split agent",
    select="agent",
    search="=task_id =run__id",
    search_help_text="A whole task id, or the number of a run.",
    fields="agent of of_run split step task_id sample environment reward success turns reason created_at",
    outcome=column(
        "ended",
        lambda row: badge("succeeded", "solved") if row.success else badge("failed", "not solved"),
        ordering="success",
    ),
    of=link_column("trace", lambda episode: episode.trace_id),
    of_run=link_column("run", lambda episode: f"run {episode.run_id}"),
)
records(
    models.TuningJob,
    show="id agent model tuned_model of_run created_at finished_at",
    filter="agent",
    select="agent run",
    search="=id =tuned_model",
    fields="agent of_run model tuned_model training_file validation_file method seed metadata error created_at finished_at",
    of_run=link_column("run", lambda job: job.run_id and f"run {job.run_id}"),
)
records(
    models.UploadedFile,
    show="id filename purpose size agent created_at expires_at",
    filter="purpose agent",
    select="agent",
    search="=id filename",
    fields="agent api_key filename purpose size created_at expires_at",
    size=column("size", lambda file: filesizeformat(file.bytes)),
)
records(
    models.LabelModel,
    show="id agent reads labels accuracy majority created_at",
    filter="agent reads",
    select="agent",
    search="=id agent__name",
    fields="agent reads labels heldout_labels accuracy majority calibration proposal_link created_at",
    accuracy=column("held-out accuracy", lambda model: percent(model.heldout_accuracy)),
    majority=column("always the commoner label", lambda model: percent(model.majority_share)),
    proposal_link=column(
        "proposals", lambda model: list_link(models.LabelProposal, "proposed labels", label_model__id__exact=model.pk)
    ),
)
records(  # a proposal is not feedback: it is listed here and marked as proposed wherever it is used
    models.LabelProposal,
    show="short_id good confidence label_model created_at",
    filter="good label_model",
    select="label_model",
    search="trace__id__startswith",
    fields="of good confidence label_model created_at",
    short_id=column("trace", lambda proposal: str(proposal.trace_id)[:8]),
    of=link_column("trace", lambda proposal: proposal.trace_id),
)
records(
    models.FollowUpLabel,
    show="short_id good confidence label_model created_at",
    filter="good label_model",
    select="label_model",
    search="trace__id__startswith",
    fields="of next_message good confidence label_model created_at",
    short_id=column("trace", lambda follow_up: str(follow_up.trace_id)[:8]),
    of=link_column("trace", lambda follow_up: follow_up.trace_id),
    next_message=column("the message is the last question of", lambda follow_up: str(follow_up.next_trace_id)),
)
records(
    models.RatingQueue,
    show="name agent rubric order raters_per_item created_at closed_at",
    filter="rubric agent",
    select="agent",
    search="name agent__name",
)
records(
    models.GoldItem,
    show="id queue value choice created_by created_at",
    select="queue",
    search="=id queue__name",
    fields="queue trace_id other_trace_id value choice created_by created_at",
)
records(
    models.Invite,
    show="name queue created_by created_at expires_at revoked_at last_used_at",
    select="queue",
    search="name queue__name",
)
records(
    models.Claim,
    show="id queue rater purpose state decided_at expires_at",
    filter="state purpose",
    select="queue",
    search="=id =rater queue__name",
    exclude=["trace", "other_trace", "pair", "feedback"],
    readonly_fields=["trace_id", "other_trace_id", "pair_id", "feedback_id"],
)
records(
    models.AnswerPair,
    show="id agent origin version created_at",
    filter="origin agent",
    select="agent",
    search="id__startswith agent__name",
    fields="id agent left_id right_id origin drawn_for version created_at",
)
records(
    models.Quarantine,
    show="rater agent reason created_at released_at released_by",
    filter="agent",
    select="agent",
    search="=rater reason",
)
_OF_SET = {
    "runs": models.TrainingRun,
    "evaluations": models.Evaluation,
    "feedback it was the first to see": models.Feedback,
    "traces in its rows": models.TrainingSetTrace,
}
records(
    models.TrainingSet,
    show="short_id agent method pair_type train_rows heldout_rows feedback_count created_at",
    filter="method agent created_at",
    select="agent",
    search="id__startswith agent__name =content_hash",
    fields="id agent method pair_type source train_rows heldout_rows val_split feedback_count content_hash directory "
    "counts records created_at",
    short_id=column("id", lambda row: str(row.pk)[:8]),
    counts=column("counts, and what was left out", lambda row: value_table(row.stats)),
    records=column(
        "records",
        lambda row: join_links(
            list_link(model, text, training_set__id__exact=row.pk) for text, model in _OF_SET.items()
        ),
    ),
)
records(
    models.TrainingSetTrace,
    show="id training_set short_trace",
    select="training_set",
    search="training_set__id__startswith trace__id__startswith",
    fields="training_set of",
    short_trace=column("trace", lambda member: str(member.trace_id)[:8]),
    of=link_column("trace", lambda member: member.trace_id),
)
records(  # the raw record; people follow and end a run on its page of the site
    models.TrainingRun,
    show="id agent method colour steps starter version_link created_at finished_at",
    filter="state method trigger agent",
    select="agent version training_set",
    search="=id agent__name method error",
    colour=column("state", lambda run: badge(run.state, run.get_state_display()), ordering="state"),
    steps=column("steps", lambda run: f"{run.step} of {run.total_steps}" if run.total_steps else run.stage),
    starter=column("started", lambda run: run.starter, ordering="trigger"),
    version_link=link_column("version", lambda run: run.version and run.version.name),
)
records(
    models.MetricPoint,
    show="id of_run step values",
    search="=run__id",
    search_help_text="The number of a run.",
    ordering=["-id"],
    fields="of_run step numbers",
    of_run=link_column("run", lambda point: f"run {point.run_id}"),
    numbers=column("values", lambda point: value_table(point.values)),
)
records(
    models.Artifact,
    show="id of_version kind quantization file_size path created_at",
    filter="kind created_at",
    select="version__agent",
    search="path =sha256 version__name version__agent__name",
    fields="of_version kind quantization path file_size sha256 more created_at",
    of_version=link_column("version", lambda artifact: artifact.version),
    file_size=column("size", lambda artifact: filesizeformat(artifact.size_bytes)),
    more=column("details", lambda artifact: value_table(artifact.details)),
)
_FACTS = "agent of_version alias target model_name created_at url api_key_env path sha256 settings host pid"


def _link_version(deployment: models.Deployment) -> SafeString | str:
    version = deployment.version
    return "base model" if version is None else change_link(models.ModelVersion, version.pk, version.name)


records(  # made and taken away by commands; how many answers are asked for is chosen here too
    models.Deployment,
    show="id agent of_version alias target model_name best_of created_at",
    filter="alias target agent",
    select="agent version",
    search="model_name agent__name version__name",
    fields=f"best_of {_FACTS}",
    readonly_fields=_FACTS.split(),
    has_change_permission=admin.ModelAdmin.has_change_permission,
    of_version=column("version", _link_version),
)
records(  # wrong passwords of the last quarter of an hour; ``manage.py axes_reset_username NAME`` ends a lock
    AccessAttempt,
    show="username ip_address failures_since_start attempt_time path_info",
    search="=username =ip_address",
    fields="username ip_address failures_since_start attempt_time path_info user_agent",
)


class WebhookDeliveryAdmin(ReadOnlyAdmin):
    actions = ["send_again"]

    def has_resend_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("rl.change_webhookdelivery")

    @admin.action(description="Send the selected messages again", permissions=["resend"])
    def send_again(self, request: HttpRequest, queryset: QuerySet[models.WebhookDelivery]) -> None:
        """To the endpoint of the operator's file that they were for."""
        for delivery in queryset:
            send_again(delivery)
        messages.success(request, f"{len(queryset)} messages are sent with the queue's next round.")


records(
    models.WebhookDelivery,
    WebhookDeliveryAdmin,
    show="created_at endpoint event occurrence state attempts last_status",
    filter="state event endpoint",
    search="occurrence =endpoint =event",
    search_help_text="Words of what happened; a whole endpoint or event.",
    fields="message_id endpoint event occurrence payload created_at state attempts next_attempt_at delivered_at "
    "last_status last_error",
)


class QueueReadOnly(ReadOnlyAdmin):
    """What the queue does. A task or a schedule names a function that the queue imports and calls: nobody writes one here,
    and none is sent again."""

    def get_actions(self, request: HttpRequest) -> dict[str, Any]:
        return {}


_STOCK: dict[type[Model], type[admin.ModelAdmin]] = {
    Schedule: stock.ScheduleAdmin,
    Success: stock.TaskAdmin,
    Failure: stock.FailAdmin,
    OrmQ: stock.QueueAdmin,
}
for _model, _admin in _STOCK.items():
    if admin.site.is_registered(_model):  # OrmQ is not where Redis is the broker
        admin.site.unregister(_model)
        admin.site.register(_model, type(_admin.__name__, (QueueReadOnly, _admin), {}))
