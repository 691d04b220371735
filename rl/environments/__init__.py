"""Worlds in which an agent with tools is tried: tasks in, observations and rewards out. No Django, no torch."""

from __future__ import annotations

from importlib import import_module

from rl.environments.base import Environment
from rl.errors import UsageError

ENVIRONMENTS: dict[str, str] = {
    "code_exec": "rl.environments.code_exec:CodeExecEnv",
    "search": "rl.environments.search:SearchEnv",
    "replay": "rl.environments.replay:ReplayEnv",
}


def environment_class(name: str) -> type[Environment]:
    """A name of ENVIRONMENTS, or the path of a class of your own, ``package.module:Class``. Raises UsageError."""
    path = ENVIRONMENTS.get(name, name)
    module, _, attribute = path.partition(":")
    if not attribute:
        raise UsageError(f"unknown environment {name!r}; known: {', '.join(ENVIRONMENTS)}, or your own as module:Class")
    try:
        found = getattr(import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise UsageError(f"there is no environment {path}: {error}") from None
    if not (isinstance(found, type) and issubclass(found, Environment)):
        raise UsageError(f"{path} is no environment: it must be a class made from rl.environments.base.Environment")
    return found
