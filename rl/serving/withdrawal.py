"""Taking deployments away again: from the target first, then from the records; and old versions with their exports.

The adapter, or the whole model that was trained, stays for ever: everything else can be made from it again."""

from datetime import datetime

from django.db import transaction
from django.db.models import QuerySet

from rl.base import files
from rl.base.errors import RatchetError, UsageError
from rl.base.export_records import beside
from rl.base.records import Report, silent
from rl.config.methods import scoring_methods
from rl.export import release
from rl.models import Agent, Arm, Artifact, Deployment, Experiment, ModelVersion
from rl.operations import audit
from rl.operations.webhooks.events import deployment_changed
from rl.serving import judge_server, llama_server, on_ollama
from rl.serving.upstreams import adapters_of

Target = Deployment.Target
EXPORTS = (Artifact.Kind.MERGED, Artifact.Kind.GGUF, Artifact.Kind.GGUF_LORA, Artifact.Kind.ONNX)


def take_down(deployment: Deployment, report: Report = silent) -> None:
    """Ends the serving of one row. An alias stays with its version, which nothing serves then; a row without one goes.
    Raises ExportFailed when the target does not answer; nothing changes then."""
    if deployment.target == Target.LLAMA_CPP:
        names = Deployment.objects.filter(pk__in=adapters_of(deployment)).values_list("model_name", flat=True)
        if names:
            report("log", {"text": f"nothing answers for {', '.join(names)} until the base model is served again"})
        llama_server.stop(deployment)
    elif deployment.target == Target.OLLAMA:
        on_ollama.remove(deployment, report)
    forget(deployment)
    judge_server.end_unwanted()


def rows_of(agent: Agent, version: ModelVersion | None) -> QuerySet[Deployment]:
    """Deployments that serve the version, the newest first."""
    return Deployment.objects.filter(agent=agent, version=version).exclude(target=Target.NONE)


def forget(deployment: Deployment) -> None:
    """Only the record; the version is retired where nothing else serves it."""
    version = deployment.version
    details = {"on": deployment.target, "model_name": deployment.model_name}
    with transaction.atomic():
        if deployment.alias:
            deployment.target, deployment.model_name, deployment.url = Target.NONE, "", ""
            deployment.save()
        else:
            deployment.delete()
        if version is not None and not rows_of(deployment.agent, version).exists():
            version.move(ModelVersion.Stage.RETIRED)
        subject = version or f"base model of {deployment.agent.name}"
        event = audit.record(audit.Action.WITHDRAWN, subject, agent=deployment.agent, **details)
        deployment_changed(event, deployment.agent)


def stop_serving(agent: Agent, version: ModelVersion | None, report: Report = silent) -> list[str]:
    """Takes the version from every target; the names that it had. Raises UsageError when nothing serves it."""
    rows = list(rows_of(agent, version))
    if not rows:
        raise UsageError(f"nothing serves {version.name if version else 'the base model'} of {agent.name}")
    names = [row.model_name for row in rows]
    for row in rows:
        take_down(row, report)
    return names


def retire_old(agent: Agent, *, report: Report = silent) -> list[ModelVersion]:
    """Stops serving what is beyond ``keep_versions``, and removes its exports; returns the versions that it retired. A
    target that does not answer, or a file that cannot be removed, is reported and left for the next time."""
    retired = []
    for version in beyond(agent):
        try:
            for row in rows_of(agent, version):
                take_down(row, report)
            freed = sum(_remove(artifact) for artifact in _exports(version))
        except (RatchetError, OSError) as error:
            report(
                "log", {"text": f"{version.name} is beyond the {agent.keep_versions} that are kept, and stays: {error}"}
            )
            continue
        retired.append(version)
        report(
            "log", {"text": f"{version.name} is retired: not served any more, {freed / 1e6:.1f} MB of exports removed"}
        )
    return retired


def beyond(agent: Agent, wanted: ModelVersion | None = None) -> list[ModelVersion]:
    """Versions that are served or exported and are not kept. Never those in use, before it, or in an experiment that is
    drafted or runs, nor those whose weights a kept one has. What a training had after earlier passes goes with its end.
    ``wanted`` counts as deployed now."""
    aliased = Deployment.objects.filter(agent=agent).exclude(alias="").values_list("version", flat=True)
    states = (Experiment.State.DRAFT, Experiment.State.RUNNING)
    arms = Arm.objects.filter(experiment__agent=agent, experiment__state__in=states).values_list("version", flat=True)
    unused = agent.versions.exclude(pk__in={version for version in (*aliased, *arms) if version is not None})
    candidates = unused.filter(step=None).exclude(run__method__in=scoring_methods())
    ranked = sorted(candidates, key=lambda version: (version == wanted, _last_wanted(version)), reverse=True)
    old = ranked[agent.keep_versions :]
    kept = agent.versions.filter(step=None).exclude(pk__in=[version.pk for version in old])
    shared = set(kept.values_list("weights", flat=True))
    old = [version for version in old if version.pk not in shared]
    old += unused.filter(weights__in=old).exclude(step=None)
    return [version for version in old if _exports(version) or rows_of(agent, version).exists()]


def _last_wanted(version: ModelVersion) -> datetime:
    """When the version was made, or deployed: an old version that somebody deploys today is wanted today."""
    rows = version.deployments.exclude(target=Deployment.Target.NONE)
    return max([version.created_at, *rows.values_list("created_at", flat=True)])


def _exports(version: ModelVersion) -> list[Artifact]:
    """The version's exported files, without those that somebody had put elsewhere."""
    return [artifact for artifact in version.artifacts.filter(kind__in=EXPORTS) if not artifact.path.startswith("/")]


def _remove(artifact: Artifact) -> int:
    """Bytes freed. The file goes first: a row without a file is found out, a file without a row is not."""
    path = release.artifact_path(artifact)
    files.remove(path)
    artifact.delete()
    folder = path.parent
    for companion in beside(path):
        files.remove(companion)
    if artifact.kind == Artifact.Kind.GGUF and not list(folder.glob("*.gguf")):
        for name in (on_ollama.MODELFILE, on_ollama.ENV_FILE):
            files.remove(folder / name)
    return artifact.size_bytes
