"""Where a reward model is that somebody names by its folder or by its version. Needs no torch."""

from __future__ import annotations

from pathlib import Path

from django.db.models import QuerySet

from rl.base.errors import UsageError
from rl.config.methods import scoring_methods
from rl.lm.model_path import check_weights, is_reward_model
from rl.models import Agent, ModelVersion
from rl.versions import versions


def find(agent: Agent, name: str) -> Path:
    """A directory, or else a version of the agent. Raises UsageError when it is neither, or scores nothing."""
    directory = Path(name).expanduser()
    if not directory.is_dir():
        directory = versions.weights_directory(_version(agent, name))
    if not is_reward_model(check_weights(directory, UsageError)):
        raise UsageError(f"{name} is not a reward model: 'manage.py train_reward_model --agent {agent.name}' makes one")
    return directory


def list_trained(agent: Agent) -> QuerySet[ModelVersion]:
    """The newest first."""
    return agent.versions.filter(run__method__in=scoring_methods())


def _version(agent: Agent, name: str) -> ModelVersion:
    if version := agent.versions.filter(name__iexact=name).first():
        return version
    raise UsageError(f"there is no reward model {name}: no such folder, and {agent.name} has no such version")
