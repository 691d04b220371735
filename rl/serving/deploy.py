"""Puts a version, or an agent's base model, where applications reach it, and writes down where that is."""

from dataclasses import dataclass
from typing import Any, Final

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from rl.base.errors import ExportFailed, UsageError
from rl.base.locks import device_lock
from rl.base.names import require_known
from rl.base.records import Report, silent
from rl.base.slugs import VARIABLE, check_slug
from rl.config.levels import check_level
from rl.export.ollama.deployer import check_address, check_model_name
from rl.lm import base_models
from rl.models import Agent, Deployment, ModelVersion, version_name
from rl.operations import audit
from rl.operations.webhooks.events import deployment_changed
from rl.serving import judge_server, llama_server, on_ollama, promotion, withdrawal
from rl.serving.hosting import OllamaHostingProfile, hosting_profile
from rl.serving.instructions import share_server
from rl.serving.model_file import ModelFile, model_file
from rl.serving.upstreams import adapters_of, find_host


def has_host(version: ModelVersion | None, report: Report) -> bool:
    """Whether llama.cpp serves the agent's base model as it is now; None, the base model, needs no host. Raises UsageError
    for a version of another one."""
    if version is None:
        return True
    agent = version.agent
    base_model = base_models.resolve(agent.base_model, report)
    if version.base_model != base_model:
        reason = f"{version.name} was trained from {version.base_model}, and {agent.name} begins with {base_model} now"
        raise UsageError(f"{reason}: deploy it to llama_cpp")
    host = find_host(agent)
    return host is not None and host.settings.get("base_model") == base_model and llama_server.is_alive(host)


def put_on_host(row: Deployment, file: ModelFile, report: Report) -> None:
    """Saves the row once the server of the base model has its adapter too: it has its adapters from its start on, so that
    one more begins it anew, and what served until then goes on until the new process answers. What is taken away is gone
    from it at its next start. Raises ExportFailed with what llama.cpp says; all is then as it was."""
    before = None if row.pk is None else Deployment.objects.get(pk=row.pk)
    row.target, row.url, row.settings = Deployment.Target.ADAPTER, "", {}
    row.path, row.sha256 = file.stored_path, file.sha256
    row.save()
    try:
        host = find_host(row.agent)
        if host is None:
            raise ExportFailed(f"the server of {row.agent.name}'s base model was stopped meanwhile")
        llama_server.start(host, report=report)
        if row.pk not in adapters_of(host):
            raise ExportFailed(f"{file.path} was changed meanwhile; export it again")
    except BaseException:
        if before:
            before.save()
        else:
            row.delete()
        raise


Target = Deployment.Target
TARGETS: Final = (Target.OLLAMA.value, Target.LLAMA_CPP.value, Target.ADAPTER.value, Target.OPENAI.value)


@dataclass(frozen=True, slots=True)
class Destination:
    """Where a deployment is to answer. Raises UsageError for what no target could take."""

    target: str
    model_name: str
    url: str = ""
    """Address of the server, for ``openai``."""
    api_key_env: str = ""

    def __post_init__(self) -> None:
        require_known("target", self.target, TARGETS)
        if self.target != Target.OPENAI and (self.url or self.api_key_env):
            raise UsageError(f"--url and --api-key-env are for --target {Target.OPENAI.value}")
        if self.target == Target.OPENAI and not (self.url and self.model_name):
            raise UsageError("another server needs --url, and --model-name as it calls the model")
        if self.api_key_env and not VARIABLE.fullmatch(self.api_key_env):
            raise UsageError("--api-key-env is the name of an environment variable, not the key itself")
        if self.url:
            check_address(self.url, "the server's")
        else:
            check_model_name(self.model_name)

    @property
    def base_url(self) -> str:
        return self.url.rstrip("/").removesuffix("/v1").rstrip("/")


def default_name(agent: Agent, version: ModelVersion | None) -> str:
    return f"{agent.name}:{version_name(version)}"


def file_name(model_name: str) -> str:
    """What the exported file is called: the name with its tag, whose colon no file name should have."""
    return model_name.replace(":", "-")


def require_target(target: str, model_name: str = "") -> None:
    """For asking before hours of work that end there. Raises UsageError for a name that the target or the export would
    refuse, ExportFailed when nothing answers or the package is missing."""
    if model_name:
        check_slug(file_name(check_model_name(model_name)), "model name")
    if target == Target.OLLAMA:
        on_ollama.server().version()
    elif target in (Target.LLAMA_CPP, Target.ADAPTER):
        llama_server.require()


def deploy(
    agent: Agent,
    version: ModelVersion | None,
    *,
    target: str,
    quantization: str = "",
    model_name: str = "",
    profile: str = "auto",
    url: str = "",
    api_key_env: str = "",
    best_of: int | None = None,
    report: Report = silent,
) -> Deployment:
    """``version`` None: the agent's base model. ``quantization``: of the GGUF file, which is exported where there is none
    yet; empty: the agent's level. ``profile``: of hosting. ``best_of``: answers of which the judge picks one; None: as
    it was, or as the version in use has it.

    ``target`` ADAPTER: on the llama.cpp server of the base model, which is deployed first where today's is not.
    What was not trained is served where its weights are. Whatever had the name before is no longer served. A version that
    was served elsewhere too keeps that, and its alias moves here. Raises UsageError, or ExportFailed for all that breaks on
    the way: what was served goes on as it was then."""
    target = Target.LLAMA_CPP.value if target == Target.ADAPTER and version is None else target
    name = model_name.removesuffix(":latest") or ("" if target == Target.OPENAI else default_name(agent, version))
    destination = Destination(target, name, url, api_key_env)
    level = check_level(quantization or agent.export_quantization)
    chosen = hosting_profile(profile, agent.context_length)
    if version is not None:
        version.require_answers()
        if version.is_worded:
            return share_server(version)
    _require_takes(target, agent, version, best_of)
    if target == Target.ADAPTER and not has_host(version, report):
        deploy(agent, None, target=target, quantization=level, profile=profile, report=report)
    with device_lock(settings.DATA_DIR / "locks", f"deploy-{agent.pk}", llama_server.waiting(report)):
        file = None if target == Target.OPENAI else model_file(agent, version, target, level, report)
        row = _row(agent, version, destination)
        row.best_of = row.best_of if best_of is None else best_of
        _serve(row, destination, file, chosen, report)
        _take_over(row, report)
        if promotion.in_use(agent) == row:
            promotion.point_name(row, report)
        withdrawal.retire_old(agent, report=report)
    _start_judge(row, report)
    return row


def _require_takes(target: str, agent: Agent, version: ModelVersion | None, best_of: int | None) -> None:
    if best_of is not None:
        judge_server.check_best_of(best_of)
    if target == Target.OLLAMA:
        on_ollama.require_no_thoughts(agent, version)
    require_target(target)


def _start_judge(row: Deployment, report: Report) -> None:
    """Where several answers are asked for; the log says why there is none."""
    if row.best_of > 1 and (problem := judge_server.start(row.agent, report=report)):
        report("log", {"text": f"the first answer is given: {problem}"})


def _row(agent: Agent, version: ModelVersion | None, destination: Destination) -> Deployment:
    """The row that has the name already, or one whose version nothing serves, or a new one."""
    own = Deployment.objects.filter(agent=agent, version=version)
    named = own.filter(
        target=destination.target, model_name=destination.model_name, **_at(destination.target, destination.base_url)
    )
    row = named.first() or own.filter(target=Target.NONE).first()
    if row is not None:
        return row
    used = promotion.in_use(agent)
    return Deployment(agent=agent, version=version, best_of=used.best_of if used else 1)


def _serve(
    row: Deployment, destination: Destination, file: ModelFile | None, profile: OllamaHostingProfile, report: Report
) -> None:
    new = row.pk is None
    row.model_name, row.api_key_env, row.created_at = destination.model_name, destination.api_key_env, timezone.now()
    if file is None:
        row.target, row.url, row.path, row.sha256, row.settings = destination.target, destination.base_url, "", "", {}
        row.save()
        return
    if destination.target == Target.ADAPTER:
        put_on_host(row, file, report)
        return
    if destination.target == Target.LLAMA_CPP:
        if new:
            row.save()  # its key is made of its number
        row.path, row.sha256, row.settings = file.stored_path, file.sha256, profile.llama_cpp()
        if row.version is None:
            row.settings["base_model"] = base_models.resolve(row.agent.base_model, report)
        try:
            llama_server.start(row, report=report)
        except BaseException:
            if new:
                row.delete()
            raise
        return
    on_ollama.register(row.agent, row.version, destination.model_name, file, profile, report)
    row.target, row.path, row.sha256 = destination.target, file.stored_path, file.sha256
    row.settings = profile.as_dict()
    row.save()


def _at(target: str, url: str) -> dict[str, Any]:
    """A name means one model on one server; the names of other people's servers are many."""
    return {"url": url} if target == Target.OPENAI else {}


def _take_over(row: Deployment, report: Report) -> None:
    """The name stands for the row's version alone now, and the version's alias is with the row."""
    named = Deployment.objects.filter(target=row.target, model_name=row.model_name, **_at(row.target, row.url))
    if row.target != Target.OLLAMA:  # which all agents share
        named = named.filter(agent=row.agent)
    for old in named.exclude(pk=row.pk):
        if old.target == Target.LLAMA_CPP:
            llama_server.stop(old)
        report("log", {"text": f"{old.model_name} was {old.version_name} of {old.agent.name} until now"})
        withdrawal.forget(old)
    with transaction.atomic():
        others = Deployment.objects.select_for_update().filter(agent=row.agent, version=row.version).exclude(pk=row.pk)
        for other in others.exclude(alias=""):
            row.alias, other.alias = other.alias, ""
            other.save(update_fields=["alias"])
            row.save(update_fields=["alias"])
        others.filter(alias="", target=Target.NONE).delete()
        if row.version is not None:
            row.version.move(ModelVersion.Stage.DEPLOYED)
        details = {"on": row.target, "model_name": row.model_name, "url": row.url}
        event = audit.record(
            audit.Action.DEPLOYED, row.version or f"base model of {row.agent.name}", agent=row.agent, **details
        )
        deployment_changed(event, row.agent)
