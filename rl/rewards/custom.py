"""Rewards of one's own, by path."""

from __future__ import annotations

from collections.abc import Mapping

from rl.base.errors import UsageError
from rl.base.leaves import import_name
from rl.base.slugs import check_slug
from rl.rewards.base import BaseReward


def load_rewards(paths: Mapping[str, str]) -> list[BaseReward]:
    """An object of each class, under the name that it is given here. Raises UsageError that says which is wrong."""
    return [_load(name, path) for name, path in paths.items()]


def _load(name: str, path: str) -> BaseReward:
    check_slug(name, "reward name")
    try:
        kind = import_name(path)
    except Exception as error:  # whatever somebody else's module does when it is imported
        raise UsageError(f"the reward {name}={path} cannot be loaded: {type(error).__name__}: {error}") from error
    if not (isinstance(kind, type) and issubclass(kind, BaseReward)):
        raise UsageError(f"the reward {name}={path} is not a subclass of rl.rewards.BaseReward")
    try:
        reward = kind()
    except Exception as error:
        raise UsageError(f"the reward {name}={path} cannot be made without arguments: {error}") from error
    reward.name = name
    return reward
