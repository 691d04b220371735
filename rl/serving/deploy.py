"""Puts an exported version where applications reach it, and writes down where that is."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from django.conf import settings
from django.db import transaction

from rl.errors import ExportFailed, UsageError
from rl.export.ollama import OllamaDeployer, check_model_name
from rl.export.release import artifact_path
from rl.leaves import leaf
from rl.models import Agent, Artifact, Deployment, ModelVersion
from rl.records import Report
from rl.slugs import check_slug

CHAT_FORMAT: Final = "rl.export.ollama_template"
"""Reads GGUF files with NumPy; imported on first use."""


def require_ollama(model_name: str = "") -> str:
    """The version of the Ollama server at OLLAMA_URL; for asking before hours of work that end there.

    Raises UsageError for a name that Ollama or the export would refuse, ExportFailed when no Ollama answers.
    """
    if model_name:
        check_slug(file_name(check_model_name(model_name)), "model name")
    return OllamaDeployer(settings.OLLAMA_URL).version()


def file_name(model_name: str) -> str:
    """What the exported file is called: the name with its tag, whose colon no file name should have."""
    return model_name.replace(":", "-")


def deploy_to_ollama(version: ModelVersion, artifact: Artifact, *, model_name: str, report: Report) -> Deployment:
    """Registers a GGUF artifact under the name; whatever had the name before is no longer served.

    Raises UsageError for a bad name or an artifact that is no GGUF file, ExportFailed for a server that is down or refuses,
    a file that changed since it was exported, or a chat template that Ollama has no equivalent of.
    """
    if artifact.kind != Artifact.Kind.GGUF:
        raise UsageError(f"Ollama loads GGUF files; {artifact} is none. Export the version with --format gguf first")
    name = check_model_name(model_name).removesuffix(":latest")
    path = artifact_path(artifact)
    chat = _chat_settings(version.agent, path, report)
    OllamaDeployer(settings.OLLAMA_URL).register(name, path, **chat, sha256=artifact.sha256, report=report)
    return _record(version, name)


def _chat_settings(agent: Agent, gguf: Path, report: Report) -> dict[str, Any]:
    """The model's own chat format, and how the agent asks: its system prompt, context and answer length."""
    family = leaf(CHAT_FORMAT).family_of_file(gguf)
    if not family.takes_system:
        if agent.system_prompt:
            raise ExportFailed(
                f"this model's chat template takes no system message, but {agent.name} has a system prompt"
            )
        report("log", {"text": "this model's chat template takes no system message; Ollama will leave them out"})
    parameters = {"num_ctx": agent.context_length, "num_predict": agent.response_length}
    if family.stop:
        parameters["stop"] = family.stop
    return {"template": family.ollama_template(), "system": agent.system_prompt, "parameters": parameters}


def _record(version: ModelVersion, model_name: str) -> Deployment:
    """A name on a target stands for one version: what it stood for before is retired, unless it has another name there.
    An alias stays with its version, which nothing serves then."""
    on_ollama = Deployment.objects.filter(target=Deployment.Target.OLLAMA)
    named = on_ollama.filter(model_name=model_name)
    with transaction.atomic():
        before = list(ModelVersion.objects.filter(deployments__in=named).exclude(pk=version.pk).distinct())
        others = named.exclude(version=version)
        others.filter(alias="").delete()
        others.update(target=Deployment.Target.NONE, model_name="")
        deployment = named.first() or Deployment.objects.create(
            agent=version.agent, version=version, target=Deployment.Target.OLLAMA, model_name=model_name
        )
        version.move(ModelVersion.Stage.DEPLOYED)
        for old in before:
            if not on_ollama.filter(version=old).exists():
                old.move(ModelVersion.Stage.RETIRED)
    return deployment
