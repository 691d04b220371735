"""An agent that is answered for by a model on somebody else's server, until one of its own is better.

The server is asked which models it has; nothing else is sent to it before a user asks something."""

from dataclasses import asdict
from http import HTTPStatus

import httpx
from django.db import transaction

from rl.base.errors import UsageError
from rl.base.names import did_you_mean
from rl.base.records import Report, silent
from rl.models import Agent
from rl.serving.deploy import Destination, deploy
from rl.serving.upstreams import key_headers

SECONDS = 20.0
"""Time for the server to list its models."""
SHOWN = 20
"""Models that are named where the one that was asked for is not among them."""


def let_answer(agent: Agent, destination: Destination, *, report: Report = silent) -> None:
    """Saves the agent. Its versions wait for a person: the gate compares them with its base model, which is not what
    answers, so whether one is better an experiment says."""
    agent.promoted_by = Agent.Decider.OPERATOR
    with transaction.atomic():
        agent.save()
        deploy(agent, None, **asdict(destination), report=report)


def require_model(destination: Destination) -> str:
    """Says what is odd about the server's answer, empty for nothing: it may have a model that it does not list. Raises
    UsageError for one that cannot be reached or refuses its key."""
    name, address = destination.api_key_env, f"{destination.base_url}/v1/models"
    try:
        answer = httpx.get(address, headers=key_headers(name), timeout=SECONDS, follow_redirects=False)
    except httpx.HTTPError as error:
        reason = f"{type(error).__name__}: {error}".rstrip(": ")
        raise UsageError(f"{destination.base_url} cannot be reached ({reason}); with --later nobody asks") from None
    if answer.status_code in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
        key = f"the key in {name}" if name else "requests without a key; name its variable: --api-key-env"
        raise UsageError(f"{destination.base_url} refuses {key}")
    if not answer.is_success:
        return f"{address} says HTTP {answer.status_code}: whether it has {destination.model_name} is not known"
    listed = _names_in(answer)
    if destination.model_name in listed:
        return ""
    near, shown = did_you_mean(destination.model_name, listed), ", ".join(sorted(listed)[:SHOWN]) or "none"
    return f"the server does not list {destination.model_name}{near}; it lists: {shown}"


def _names_in(answer: httpx.Response) -> set[str]:
    """Empty where the answer has none as OpenAI writes them."""
    try:
        return {str(model["id"])[:200] for model in answer.json()["data"]}
    except (ValueError, LookupError, TypeError):
        return set()
