"""One version: is it better, what did it change, where does it come from, and putting it into use."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from django.conf import settings
from django.contrib import messages
from django.http import FileResponse, Http404, HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop

from rl.base.errors import RatchetError, UsageError
from rl.base.export_records import beside, card_path
from rl.base.names import unknown_name
from rl.collect.feedback.judged_answers import kind_of_answers
from rl.models import Artifact, Deployment, Experiment, ModelVersion, Trace, version_name
from rl.operations import queue_state
from rl.runs.duels import take_poll
from rl.serving import overview, promotion
from rl.serving.experiments import lifecycle
from rl.serving.experiments.looks import look
from rl.serving.experiments.report import answer, document, history
from rl.serving.experiments.wording import difference_text
from rl.serving.upstreams import deploy_command
from rl.web import version_figures
from rl.web.compared_answers import describe_compared
from rl.web.formatting import Page
from rl.web.pages.guards import for_users, for_users_who_post, require_staff, show_problem

EXPERIMENT_REFUSAL = gettext_noop("Experiments are for staff with the permission to see or to change them.")
SHOWN = 200


@for_users
def experiment_list(request: HttpRequest) -> HttpResponse:
    require_staff(request, "rl.view_experiment", EXPERIMENT_REFUSAL)
    entries = []
    for row in Experiment.objects.select_related("agent").prefetch_related("arms__version")[:SHOWN]:
        names = [_("{arm} (control)").format(arm=arm.name) if arm.is_control else arm.name for arm in row.arms.all()]
        entries.append({"row": row, "answer": answer(row), "arms": " / ".join(names)})
    return render(request, "rl/experiments.html", {"page": "experiments", "experiments": entries, "shown": SHOWN})


@for_users_who_post
def one_experiment(request: HttpRequest, pk: int) -> HttpResponse:
    require_staff(request, "rl.view_experiment", EXPERIMENT_REFUSAL)
    experiment = get_object_or_404(Experiment.objects.select_related("agent"), pk=pk)
    if request.method != "POST":
        report = document(look(experiment))
        return render(
            request,
            "rl/experiment.html",
            {
                "page": "experiments",
                "experiment": experiment,
                "look": report,
                "percent": round(report["progress"] * 100),
                "challengers": [arm for arm in report["arms"] if not arm["is_control"]],
                "effect": difference_text(experiment.metric, experiment.minimum_effect, signed=False),
                "confidence": f"{experiment.confidence * 100:g} %",
                "unserved": lifecycle.find_unserved(experiment) if experiment.state != experiment.State.STOPPED else [],
                "unjudged": lifecycle.find_unjudged(experiment) if experiment.state != experiment.State.STOPPED else "",
                "may_change": request.user.has_perm("rl.change_experiment"),
            },
        )
    require_staff(request, "rl.change_experiment", EXPERIMENT_REFUSAL)
    try:
        _act(request, experiment)
    except RatchetError as error:
        return show_problem(request, "experiments", reverse("experiment", args=[pk]), error)
    return redirect("experiment", pk=pk)


@for_users
def look_json(request: HttpRequest, pk: int) -> JsonResponse:
    """What the page asks for while the experiment runs."""
    require_staff(request, "rl.view_experiment", EXPERIMENT_REFUSAL)
    current = look(get_object_or_404(Experiment.objects.select_related("agent"), pk=pk), with_history=True)
    return JsonResponse({**document(current), "history": history(current)})


def _act(request: HttpRequest, experiment: Experiment) -> None:
    """Raises UsageError for an action or an arm that does not exist, and what the action raises."""
    action, by = request.POST.get("action", ""), request.user.get_username()
    if action == "start":
        lifecycle.start(experiment)
    elif action == "stop":
        lifecycle.stop(experiment, by)
    elif action == "promote":
        number = request.POST.get("arm", "")
        arm = experiment.arms.select_related("version").filter(pk=number).first() if number.isdecimal() else None
        if arm is None:
            raise UsageError("the experiment has no such arm")
        lifecycle.conclude(experiment, arm, by)
    else:
        raise UsageError(unknown_name("action", action, ("start", "stop", "promote")))


REFUSAL = gettext_noop("Versions are for staff with the permission to see them, or to change what is in use.")

ANSWERS: Final = 10
PROMOTE: Final = "rl.change_deployment"
ADD_EXPERIMENT: Final = "rl.add_experiment"


@for_users_who_post
def one_version(request: HttpRequest, agent: str, name: str) -> HttpResponse:
    """``?answers=lost``, or another of CHOICES, leaves the others out. POST: ``promote``, ``roll_back``, ``serve``, or
    ``compare``: a draft of an experiment against the version in use."""
    require_staff(request, "rl.view_modelversion", REFUSAL)
    version = _find(agent, name)
    if request.method == "POST" and request.POST.get("action") == "compare":
        require_staff(request, ADD_EXPERIMENT, REFUSAL)
        # the same again within the same minute
        live = lifecycle.Variant(Deployment.champion(version.agent))
        title = f"{version_name(live.version)} or {version.name}, {timezone.now():%Y-%m-%d %H.%M}"
        made = Experiment.objects.filter(agent=version.agent, name=title).first()
        sides = [(live, 1.0), (lifecycle.Variant(version), 1.0)]
        return redirect("experiment", pk=(made or lifecycle.create(version.agent, title, sides, control=live)).pk)
    if request.method == "POST":
        require_staff(request, PROMOTE, REFUSAL)
        try:
            messages.success(request, _put_into_use(request.POST.get("action", ""), version))
        except RatchetError as error:
            messages.error(request, _("Nothing was changed: {problem}.").format(problem=error))
        return redirect("version", agent=agent, name=name)
    return render(request, "rl/version.html", _context(request, version))


@for_users
def download(request: HttpRequest, agent: str, name: str, pk: int, file: str) -> FileResponse:
    """A file of a registered artifact."""
    require_staff(request, "rl.view_artifact", REFUSAL)
    artifact = get_object_or_404(_find(agent, name).artifacts, pk=pk)
    path = find_file(artifact, file)
    if path is None:
        raise Http404("the artifact has no such file here")
    return FileResponse(
        path.open("rb"), as_attachment=True, filename=path.name, content_type="application/octet-stream"
    )


def _find(agent: str, name: str) -> ModelVersion:
    rows = ModelVersion.objects.select_related("agent", "parent", "run__training_set")
    return get_object_or_404(rows, agent__name=agent, name=name)


def _context(request: HttpRequest, version: ModelVersion) -> dict[str, Any]:
    evaluation = version_figures.newest_evaluation(version)
    agent, deployments = version.agent, list(version.deployments.all())
    kind = None if version.is_reward_model else kind_of_answers(agent)
    context = {
        "page": "agents",
        "version": version,
        "agent": agent,
        "run": getattr(version, "run", None),
        "evaluation": evaluation,
        "deployments": deployments,
        "in_use": any(row.alias == "champion" for row in deployments),
        "is_served": overview.is_served(version.agent, version),
        "may_compare": request.user.has_perm(ADD_EXPERIMENT) and not version.is_reward_model,
        "may_serve": request.user.has_perm(PROMOTE) and not overview.why_not(version),
        "children": version.children.all()[:20],
        "has_traces": Trace.objects.filter(model_version=version).exists(),
        "right": kind and version_figures.right_share(agent, version, kind),
        "files": [file for artifact in version.artifacts.all() for file in list_files(artifact)],
        "card": Page().format(read_card(version)),
        "command": deploy_command(version.agent.name, version.name),
        "may_promote": request.user.has_perm(PROMOTE) and not version.is_reward_model,
    }
    if evaluation is None:
        return context
    figures = {
        "poll": take_poll(evaluation),
        "sentence": version_figures.sentence(evaluation),
        "bars": version_figures.bars(evaluation),
    }
    compared = describe_compared(evaluation, request.GET.get("answers", ""), ANSWERS)
    return {**context, **figures, **compared, "rails": version_figures.rails(evaluation)}


def _put_into_use(action: str, version: ModelVersion) -> str:
    """Says what became of it. Raises RatchetError."""
    agent = version.agent
    if action == "promote":
        if not overview.is_served(agent, version):
            raise UsageError(f"nothing serves {version.name} yet; {deploy_command(agent.name, version.name)} does")
        promotion.promote(agent, version)
        return _("{agent} uses {version} now.").format(agent=agent.name, version=version.name)
    if action == "roll_back":
        now = promotion.roll_back(agent, instead_of=version)
        used = now.name if now else _("its base model")
        return _("{agent} uses {version} now.").format(agent=agent.name, version=used)
    if action == "serve":
        overview.enqueue(version)
        silent = queue_state.is_silent(queue_state.last_work())
        news = _("{version} will be served in a moment; then it can be used.").format(version=version.name)
        problem = _("But nothing works at the moment: {problem}.").format(problem=queue_state.START)
        return f"{news} {problem}" if silent else news
    raise UsageError(unknown_name("action", action, ("promote", "roll_back", "serve")))


_CARD_BYTES: Final = 65_536
_HEAD: Final = re.compile(r"\A---\n.*?\n---\n", re.DOTALL)


@dataclass(frozen=True, slots=True)
class VersionFile:
    artifact: Artifact
    name: str
    size: int


def list_files(artifact: Artifact) -> list[VersionFile]:
    """Those that are there, with what was written about a file; a folder's are listed by name."""
    root = _root(artifact)
    if root is None:
        return []
    paths = sorted(root.iterdir()) if root.is_dir() else [root, *beside(root)]
    plain = [path for path in paths if path.is_file() and not path.is_symlink()]
    return [VersionFile(artifact, path.name, path.stat().st_size) for path in plain]


def find_file(artifact: Artifact, name: str) -> Path | None:
    """None where the artifact has no such file, or lies elsewhere than below DATA_DIR."""
    root = _root(artifact)
    if root is None or name not in [file.name for file in list_files(artifact)]:
        return None
    return root / name if root.is_dir() else root.with_name(name)


def read_card(version: ModelVersion) -> str:
    """The model card of its newest export as Markdown, without the head for machines; empty where none was written."""
    for artifact in reversed(version.artifacts.all()):
        root = _root(artifact)
        card = card_path(root) if root else None
        if card and card.is_file() and not card.is_symlink():
            return _HEAD.sub("", card.read_bytes()[:_CARD_BYTES].decode(errors="replace"))
    return ""


def _root(artifact: Artifact) -> Path | None:
    folder = Path(settings.DATA_DIR).resolve()
    path = (folder / artifact.path).resolve()
    return path if path.is_relative_to(folder) and path != folder and path.exists() else None
