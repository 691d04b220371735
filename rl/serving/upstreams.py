"""Where a deployment answers: address, model name and headers of its OpenAI-compatible server."""

import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Final

from django.conf import settings
from django.utils.crypto import salted_hmac

from rl.base.errors import UsageError
from rl.models import BASE, Agent, Deployment, version_name

MOST_TOKENS: Final = 131_072
"""Where the context of a model is not known."""
AT_ONCE: Final = 64
"""Where it is not known how many answers a server gives at once."""


@dataclass(frozen=True, slots=True)
class Upstream:
    base_url: str
    """Ends with ``/v1``."""
    model: str
    headers: Mapping[str, str] = field(default_factory=dict)
    context: int = MOST_TOKENS
    """Tokens of prompt and answer together."""
    slots: int = AT_ONCE
    """Answers that are asked of it at once."""
    server: int | None = None
    """The number of its deployment where it is a llama.cpp process of ours."""
    fields: Mapping[str, Any] = field(default_factory=dict)
    """What each request says besides: which adapter of a server that has several."""
    choice_forms: tuple[str, ...] = ("structured_outputs", "guided_choice", "response_format")
    """Fields of a request in which it may take a set of answers, to be tried one after the other (gateway/forms.py)."""


def upstream_of(deployment: Deployment) -> Upstream:
    """Raises UsageError for a deployment that nothing serves, or whose API key is not in the environment."""
    if deployment.target == Deployment.Target.SHARED:
        return _upstream_of_weights(deployment)
    if deployment.target == Deployment.Target.ADAPTER:
        return _upstream_of_adapter(deployment)
    model, schema = deployment.model_name, ("response_format",)
    if deployment.target == Deployment.Target.OLLAMA:
        ollama = Upstream(f"{settings.OLLAMA_URL}/v1", model, choice_forms=schema)
        return _apply_profile(ollama, deployment, "num_ctx", "num_parallel")
    if deployment.target == Deployment.Target.NONE or not deployment.url:
        raise UsageError(f"{deployment.version_name} of {deployment.agent.name} is not served by anything")
    if deployment.target == Deployment.Target.LLAMA_CPP:
        key = _bearer(server_key(deployment))
        nobody = _choose_adapter(0, 0.0) if adapters_of(deployment) else {}
        ours = Upstream(f"{deployment.url}/v1", model, key, server=deployment.pk, fields=nobody, choice_forms=schema)
        return _apply_profile(ours, deployment, "context", "slots")
    return Upstream(f"{deployment.url}/v1", model, key_headers(deployment.api_key_env))


def key_headers(variable: str) -> dict[str, str]:
    """Headers with the key that the environment variable holds; none for an empty name. Raises UsageError."""
    if variable and not os.environ.get(variable):
        raise UsageError(f"the environment variable {variable}, which holds the server's API key, is not set")
    return _bearer(os.environ[variable]) if variable else {}


def _upstream_of_weights(deployment: Deployment) -> Upstream:
    """Whatever serves the version whose weights it has, the newest first."""
    version, rows = deployment.version, Deployment.objects.filter(agent=deployment.agent)
    weights = version.weights if version else None
    for row in rows.filter(version=weights).exclude(target=deployment.target).select_related("agent", "version"):
        with suppress(UsageError):
            return upstream_of(row)
    raise UsageError(f"nothing serves {version_name(weights)} of {deployment.agent.name}, whose server it would share")


def _upstream_of_adapter(deployment: Deployment) -> Upstream:
    """The base model's server, told which of its adapters is meant."""
    agent = deployment.agent
    if (host := find_host(agent)) is None:
        raise UsageError(f"nothing serves the base model of {agent.name}: run '{deploy_command(agent.name)}'")
    loaded = adapters_of(host)
    if deployment.pk not in loaded:
        name = deployment.version_name
        raise UsageError(
            f"the server of {agent.name}'s base model does not have {name}: its file is gone, or of another base"
        )
    return replace(upstream_of(host), fields=_choose_adapter(loaded.index(deployment.pk), 1.0))


def find_host(agent: Agent) -> Deployment | None:
    """The llama.cpp server of the agent's base model, which adapters are put on."""
    own = Deployment.objects.filter(agent=agent, version=None, target=Deployment.Target.LLAMA_CPP)
    return own.exclude(pid=None).select_related("agent", "version").first()


def adapters_of(host: Deployment) -> list[int]:
    """The deployments whose adapters it has, each at the place that is its number there."""
    return list(host.settings.get("adapters", ()))


def _choose_adapter(number: int, scale: float) -> dict[str, Any]:
    """llama.cpp takes all others as 0. Without this field it would go on from what was computed under another adapter."""
    return {"lora": [{"id": number, "scale": scale}]}


def _apply_profile(upstream: Upstream, deployment: Deployment, context: str, slots: str) -> Upstream:
    """By what the hosting profile says, under the names that it has there."""
    chosen = deployment.settings
    return replace(upstream, context=chosen.get(context, upstream.context), slots=chosen.get(slots, upstream.slots))


def server_key(deployment: Deployment) -> str:
    """What our own llama.cpp process asks for, so that other users of the machine cannot use it; kept nowhere."""
    key = settings.SERVING_KEY
    return salted_hmac("rl.serving.llama_server", str(deployment.pk), secret=key, algorithm="sha256").hexdigest()


def _bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


def deploy_command(agent: str, version: str = BASE) -> str:
    """It makes the version answer on this machine; an agent's name needs no quotes in a shell."""
    target = Deployment.Target.LLAMA_CPP.value
    return f"python3 manage.py deploy_model --agent {agent} --version {version} --target {target}"
