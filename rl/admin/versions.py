"""Versions and evaluations."""

from collections.abc import Mapping, Sequence
from typing import Any

from django.contrib import admin
from django.db.models import Prefetch, QuerySet
from django.http import HttpRequest
from django.template.defaultfilters import filesizeformat
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from rl.admin import markup
from rl.models import Artifact, Deployment, Evaluation, ModelVersion, Trace, TrainingRun

_ANSWERS: dict[str, str] = {
    Evaluation.Verdict.PROMOTE: "Yes.",
    Evaluation.Verdict.REJECT: "No.",
    Evaluation.Verdict.UNDECIDED: "It is not known.",
}
"""Whether a version is better than the one that was in use."""


class ArtifactInline(markup.ReadOnlyInline):
    model = Artifact
    fields = ["kind", "quantization", "path", "file_size", "sha256", "created_at"]

    file_size = markup.column("size", lambda artifact: filesizeformat(artifact.size_bytes))


def _link_measured_model(evaluation: Evaluation) -> SafeString | str:
    """The weights as they were trained, or a file that was made from them."""
    file = evaluation.artifact
    return "weights" if file is None else markup.change_link(Artifact, file.pk, f"{file.kind} {file.quantization}")


class EvaluationInline(markup.ReadOnlyInline):
    model = Evaluation
    fk_name = "version"
    fields = [
        *("verdict", "pairs", "prompts", "accuracy", "base_accuracy", "against_accuracy"),
        *("measured_model", "created_at"),
    ]

    def get_queryset(self, request: HttpRequest) -> QuerySet[Evaluation]:
        return super().get_queryset(request).defer("report").select_related("artifact")

    measured_model = markup.column("measured", _link_measured_model)


class DeploymentInline(markup.ReadOnlyInline):
    model = Deployment
    fields = ["target", "model_name", "alias", "created_at"]


class ModelVersionAdmin(markup.ReadOnlyAdmin):
    inlines = [EvaluationInline, ArtifactInline, DeploymentInline]

    def get_queryset(self, request: HttpRequest) -> QuerySet[ModelVersion]:
        short = Evaluation.objects.filter(artifact=None).defer("report")
        return super().get_queryset(request).prefetch_related(Prefetch("evaluations", queryset=short))

    @admin.display(description="verdict")
    def verdict(self, version: ModelVersion) -> SafeString | str:
        newest = next(iter(version.evaluations.all()), None)
        return markup.badge(newest.verdict, newest.get_verdict_display()) if newest else markup.NOTHING

    @admin.display(description="is it better?")
    def is_it_better(self, version: ModelVersion) -> str:
        """The newest verdict with its reason, which says what would settle it."""
        newest = version.evaluations.filter(artifact=None).order_by("-created_at").first()
        if newest is None:
            return "Nobody knows yet: it has not been measured."
        return f"{_ANSWERS[newest.verdict]} {newest.report.get('reason', '')}"

    @admin.display(description="made by")
    def made_by(self, version: ModelVersion) -> SafeString | str:
        run = TrainingRun.objects.filter(version=version).first()
        return markup.change_link(TrainingRun, run.pk, run) if run else markup.NOTHING

    @admin.display(description="records")
    def records(self, version: ModelVersion) -> SafeString:
        models = {"artifacts": Artifact, "evaluations": Evaluation, "deployments": Deployment}
        links = [markup.list_link(model, text, version__id__exact=version.pk) for text, model in models.items()]
        return markup.join_links([*links, markup.list_link(Trace, "its answers", model_version__id__exact=version.pk)])


markup.records(
    ModelVersion,
    ModelVersionAdmin,
    show="name agent stage verdict feedback_count created_at",
    filter="stage agent",
    select="agent",
    search="name agent__name base_model",
    fields="agent name stage is_it_better made_by came_after base_model feedback_count records created_at",
    came_after=markup.link_column("parent", lambda version: version.parent and version.parent.name),
)


class EvaluationAdmin(markup.ReadOnlyAdmin):
    def get_queryset(self, request: HttpRequest) -> QuerySet[Evaluation]:
        rows = super().get_queryset(request)
        return rows if request.resolver_match and "object_id" in request.resolver_match.kwargs else rows.defer("report")

    @admin.display(description="evidence, the weightiest first")
    def evidence(self, evaluation: Evaluation) -> SafeString | str:
        shown = evaluation.report.get("evidence", ())
        return markup.value_table({part["kind"]: {k: v for k, v in part.items() if k != "kind"} for part in shown})

    @admin.display(description="guard rails")
    def guard_rails(self, evaluation: Evaluation) -> SafeString | str:
        guards = evaluation.report.get("guards", {})
        rails = {
            rail["name"]: f"{'broken: ' if rail['broken'] else ''}{rail['text']} (limit {rail['limit']:g})"
            for rail in guards.get("rails", ())
        }
        return markup.value_table(rails or {name: text for name, text in guards.items() if name == "skipped"})

    @admin.display(description="report")
    def figures(self, evaluation: Evaluation) -> SafeString | str:
        above = {"reason", "evidence", "guards", "sampled", "compared"}
        return markup.value_table({name: value for name, value in evaluation.report.items() if name not in above})


markup.records(
    Evaluation,
    EvaluationAdmin,
    show="id of_version measured_model colour pairs accurate base in_use created_at",
    filter="verdict created_at",
    select="version__agent artifact",
    search="version__name version__agent__name",
    fields="of_version measured_model compared_with rows colour reason evidence pairs prompts accurate base in_use "
    "guard_rails answers figures created_at",
    of_version=markup.link_column("version", lambda evaluation: evaluation.version),
    compared_with=markup.column(
        "compared with", lambda row: markup.change_link(ModelVersion, row.against_id, row.against)
    ),
    rows=markup.link_column("training_set", lambda evaluation: str(evaluation.training_set_id)[:8]),
    measured_model=markup.column("measured", _link_measured_model),
    colour=markup.column(
        "verdict", lambda evaluation: markup.badge(evaluation.verdict, evaluation.get_verdict_display())
    ),
    accurate=markup.column("accuracy", lambda evaluation: markup.percent(evaluation.accuracy)),
    base=markup.column("base model", lambda evaluation: markup.percent(evaluation.base_accuracy)),
    in_use=markup.column("version in use", lambda evaluation: markup.percent(evaluation.against_accuracy)),
    reason=markup.column("reason", lambda evaluation: evaluation.report.get("reason", markup.NOTHING)),
    answers=markup.column("answers", lambda row: answer_table(row.report.get("guards", {}).get("samples", ()))),
)

HEADINGS = {"base": "base model", "current": "version in use", "new": "new version"}
"""In the order of their columns."""


def answer_table(samples: Sequence[Mapping[str, Any]]) -> SafeString | str:
    """What the models answered to the prompts of an evaluation, side by side. ``samples``: of the guard rails of a report;
    errors stand above their answer."""
    names = [name for name in HEADINGS if any(name in sample for sample in samples)]
    if not names:
        return markup.NOTHING
    heads = format_html_join("", '<th scope="col">{}</th>', [("prompt",), *((HEADINGS[name],) for name in names)])
    cells = (
        [(sample["prompt"],), *((_answer(sample[name]) if name in sample else markup.NOTHING,) for name in names)]
        for sample in samples
    )
    rows = format_html_join("", "<tr>{}</tr>", ((format_html_join("", "<td>{}</td>", row),) for row in cells))
    return format_html('<table class="answers"><thead><tr>{}</tr></thead><tbody>{}</tbody></table>', heads, rows)


def _answer(answered: Mapping[str, Any]) -> SafeString:
    errors = ((markup.badge("reject", kind.replace("_", " ")),) for kind in answered["errors"])
    return format_html("{}{}", format_html_join("", "{} ", errors), answered["answer"])
