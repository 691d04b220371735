"""What is particular about serving by Ollama: the chat format, the files for people, the name that stays the same."""

from typing import Final

from django.conf import settings

from rl.base import files
from rl.base.errors import ExportFailed, UsageError
from rl.base.leaves import leaf
from rl.base.manner import SYSTEM
from rl.base.records import Report
from rl.export.ollama.deployer import OllamaDeployer, full_name
from rl.models import Agent, Deployment, ModelVersion
from rl.serving.hosting import OllamaHostingProfile
from rl.serving.model_file import ModelFile

CHAT_FORMAT: Final = "rl.export.ollama.template"
"""Reads GGUF files with NumPy; imported on first use."""
MODELFILE, ENV_FILE = "Modelfile", "ollama.env"


def server(timeout: float = 30.0) -> OllamaDeployer:
    return OllamaDeployer(settings.OLLAMA_URL, timeout=timeout)


def require_no_thoughts(agent: Agent, version: ModelVersion | None) -> None:
    """Raises UsageError for a model that thinks before it answers."""
    if version.manner.thinks if version else agent.thinks:
        raise UsageError(
            f"{version or f'the base model of {agent.name}'} thinks before it answers, and Ollama would give its thoughts "
            "as part of its answers: serve it with llama.cpp (deploy_target llama_cpp), or train without thoughts"
        )


def rules_of(agent: Agent, version: ModelVersion | None) -> str:
    """Joins the system prompt and what the version is told there, as the gateway tells it."""
    rules = [{"role": "system", "content": agent.system_prompt}] if agent.system_prompt else []
    messages = version.manner.tell(rules) if version else rules
    return messages[0]["content"] if messages else ""


def register(
    agent: Agent,
    version: ModelVersion | None,
    model_name: str,
    file: ModelFile,
    profile: OllamaHostingProfile,
    report: Report,
) -> None:
    """Registers the file as the agent asks, and writes a Modelfile and an environment file beside it. Raises ExportFailed
    for a server that is down or refuses, a file that changed since it was exported, or a chat template that Ollama has no
    equivalent of."""
    family = leaf(CHAT_FORMAT).family_of_file(file.path)
    rules = rules_of(agent, version)
    if not family.takes_system:
        if rules:
            raise ExportFailed(
                f"this model's chat template takes no system message, but {agent.name} has a system prompt"
            )
        report("log", {"text": "this model's chat template takes no system message; Ollama will leave them out"})
    parameters = {**profile.parameters(), "num_predict": agent.response_length}
    if family.stop:
        parameters["stop"] = family.stop
    chat = {"template": family.ollama_template(), "system": rules, "parameters": parameters}
    server().register(model_name, file.path, **chat, sha256=file.sha256, report=report)
    texts = {MODELFILE: profile.modelfile(file.path.name, **chat), ENV_FILE: profile.env_file()}
    try:
        for name, text in texts.items():
            files.write_text(file.path.parent / name, text)
    except OSError as error:  # the model is served all the same
        report("log", {"text": f"no {MODELFILE} was written to {file.path.parent}: {error.strerror or error}"})


def knows_instruction(deployment: Deployment) -> bool:
    """Whether who asks Ollama itself is answered as by the gateway: it knows a system prompt, and adds to no question."""
    version, is_here = deployment.version, deployment.target == Deployment.Target.OLLAMA
    return is_here and version is not None and version.instruction_place == SYSTEM


def remove(deployment: Deployment, report: Report) -> None:
    """From Ollama's disk and memory, with the agent's own name where that stands for it. It is not an error
    if one is gone already."""
    names = [deployment.model_name]
    if deployment.alias == Deployment.Alias.CHAMPION:
        names.append(deployment.agent.name)
    ollama = server()
    for name in names:
        if ollama.show(name) is not None:
            ollama.unload(name)
            ollama.delete(name)
            report("log", {"text": f"Ollama has no model {name} any more"})


def point(agent: Agent, deployment: Deployment, report: Report) -> None:
    """Makes the agent's own name at Ollama stand for the deployment's model. Another version that was deployed under that
    very name keeps its model, under the name of agent and version."""
    name = agent.name
    if full_name(deployment.model_name) == full_name(name):
        return
    ollama = server()
    for other in Deployment.objects.filter(target=Deployment.Target.OLLAMA, model_name=name):
        other.model_name = f"{other.agent.name}:{other.version_name}"
        ollama.copy(name, other.model_name)
        other.save(update_fields=["model_name"])
    ollama.copy(deployment.model_name, name)
    report("log", {"text": f"Ollama's {name} is {deployment.model_name} now"})
