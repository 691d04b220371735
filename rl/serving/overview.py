"""What is served now, what a deployment would do, and the environment that leads applications to the version in use.

A page may ask for a deployment from a file that is there already; the queue does it. An export takes minutes and all the
memory of a training, so that it is left to ``deploy_model``."""

import re
from typing import Any

from django.db import transaction
from django.db.models import Q

from rl.base.errors import ExportFailed, UsageError
from rl.config.levels import check_level
from rl.config.methods import scoring_methods
from rl.export.ollama.deployer import full_name
from rl.models import BASE, Agent, Deployment, Evaluation, ModelVersion, version_name
from rl.operations import audit
from rl.serving import judge_server, llama_server, on_ollama
from rl.serving.deploy import Destination, default_name, deploy
from rl.serving.hosting import hosting_profile
from rl.serving.model_file import find_export
from rl.serving.promotion import in_use
from rl.serving.upstreams import adapters_of, find_host, upstream_of
from rl.serving.withdrawal import beyond, rows_of
from rl.versions.versions import find_version

Stage, Target = ModelVersion.Stage, Deployment.Target


def choose_version(agent: Agent, name: str) -> ModelVersion | None:
    """``base`` is the base model, as None. Empty: the newest version that the gate promoted or that was exported. Raises
    UsageError."""
    if name.lower() == BASE:
        return None
    if name:
        return find_version(agent, name)
    good = Q(stage__in=[Stage.EXPORTED, Stage.DEPLOYED]) | Q(evaluations__verdict=Evaluation.Verdict.PROMOTE)
    version = (
        agent.versions.filter(good).exclude(stage=Stage.REJECTED).exclude(run__method__in=scoring_methods()).first()
    )
    if version is None:
        raise UsageError(f"{agent.name} has no version that was promoted or exported; name one by --version, or base")
    return version


def list_deployments(agent: Agent) -> list[dict[str, Any]]:
    """One entry for each deployment, the newest first; ``alive`` and ``memory_bytes`` are None where nobody can tell."""
    rows = list(agent.deployments.select_related("version", "agent"))
    known, loaded = _at_ollama(rows)
    unjudged = judge_server.find_problem(agent)
    return [_entry(row, known, loaded, unjudged if row.best_of > 1 else "") for row in rows]


def plan(
    agent: Agent, version: ModelVersion | None, destination: Destination, quantization: str, profile: str
) -> dict[str, Any]:
    """What a deployment would do; nothing is done. Raises UsageError for what it would refuse."""
    level = check_level(quantization or agent.export_quantization)
    chosen = hosting_profile(profile, agent.context_length)
    document: dict[str, Any] = {
        "version": version_name(version),
        "target": destination.target,
        "model_name": destination.model_name,
    }
    if destination.target == Target.OPENAI:
        return {**document, "url": destination.base_url}
    is_there = version is not None and find_export(version, destination.target, level) is not None
    document |= {"quantization": level, "file": "is exported already" if is_there else "is exported first"}
    document["profile"] = chosen.as_dict()
    document["reasons"] = dict(chosen.reasons)
    document["retired"] = [old.name for old in beyond(agent, version)]
    return document


def destination_of(
    agent: Agent, version: ModelVersion | None, *, target: str, model_name: str, url: str, api_key_env: str
) -> Destination:
    """An empty target is the agent's, or another server where there is a ``url``; an empty name is the target's usual one.
    Raises UsageError."""
    target = target or (Target.OPENAI.value if url else agent.deploy_target)
    name = model_name or ("" if target == Target.OPENAI else default_name(agent, version))
    return Destination(target, name, url, api_key_env)


def is_served(agent: Agent, version: ModelVersion | None) -> bool:
    return rows_of(agent, version).exists()


def environment(agent: Agent, name: str = "") -> dict[str, str]:
    """Variables that lead an application to the version in use. ``name``: of the first. Raises UsageError when nothing
    serves it."""
    variable = name or f"OLLAMA_MODEL_{re.sub(r'[^A-Z0-9]', '_', agent.name.upper())}"
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", variable):
        raise UsageError(f"{variable!r} is not a name for an environment variable")
    row = in_use(agent)
    if row is None or row.target == Target.NONE:
        raise UsageError(f"nothing serves the version in use of {agent.name}; run 'deploy_model --agent {agent.name}'")
    if row.version and row.version.instruction and not on_ollama.knows_instruction(row):
        raise UsageError(f"{row.version.name} is told an instruction, which its server does not know: use the gateway")
    if (upstream := upstream_of(row)).fields:
        reason = f"{row.version_name} shares its server with adapters, between which only the gateway chooses"
        raise UsageError(f"{reason}: let applications use it")
    return {variable: row.model_name, "OPENAI_BASE_URL": upstream.base_url}


def _at_ollama(rows: list[Deployment]) -> tuple[set[str] | None, dict[str, int]]:
    """Full names of the models that Ollama has (None when it does not answer), and bytes of those in memory."""
    if not any(row.target == Target.OLLAMA for row in rows):
        return set(), {}
    ollama = on_ollama.server(5.0)
    try:
        return {model.name for model in ollama.list()}, {model.name: model.size_bytes for model in ollama.running()}
    except ExportFailed:
        return None, {}


def _entry(row: Deployment, known: set[str] | None, loaded: dict[str, int], unjudged: str) -> dict[str, Any]:
    alive, memory = None, None
    if row.target == Target.LLAMA_CPP:
        alive, memory = llama_server.is_alive(row), llama_server.memory_bytes(row)
    elif row.target == Target.ADAPTER:
        alive = (
            (host := find_host(row.agent)) is not None and row.pk in adapters_of(host) and llama_server.is_alive(host)
        )
    elif row.target == Target.OLLAMA:
        name = full_name(row.model_name)
        alive, memory = known is not None and name in known, loaded.get(name)
    return {
        "version": row.version_name,
        "target": row.target,
        "model_name": row.model_name,
        "alias": row.alias,
        "url": upstream_of(row).base_url if row.target == Target.OLLAMA else row.url,
        "alive": alive,
        "memory_bytes": memory,
        "problem": row.settings.get("error", ""),
        "best_of": row.best_of,
        "unjudged": unjudged,
    }


def why_not(version: ModelVersion) -> str:
    """The reason why a page cannot ask for it; empty where it can."""
    if version.is_reward_model:
        return f"{version.name} is a reward model, which gives no answers"
    if is_served(version.agent, version):
        return f"{version.name} is served already"
    if version.is_worded:
        return ""
    target, level = version.agent.deploy_target, version.agent.export_quantization
    file = "adapter as a GGUF file" if target == Target.ADAPTER else f"GGUF file at {level}"
    return "" if find_export(version, target, level) else f"{version.name} has no {file} yet"


def enqueue(version: ModelVersion) -> None:
    """On behalf of whoever acts now. Raises UsageError."""
    from django_q.tasks import async_task  # reads the queue's settings when imported

    if reason := why_not(version):
        raise UsageError(reason)
    actor = audit.actor()
    transaction.on_commit(lambda: async_task("rl.tasks.deploy_version", version.pk, actor))


def deploy_now(version_id: int, actor: str) -> str:
    """For the queue: the name under which it is served; empty where that is not possible any more. Raises ExportFailed."""
    version = ModelVersion.objects.select_related("agent").filter(pk=version_id).first()
    if version is None or why_not(version):
        return ""
    with audit.acting_for(audit.Caller(actor)):
        return deploy(version.agent, version, target=version.agent.deploy_target).model_name
