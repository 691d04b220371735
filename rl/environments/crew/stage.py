"""What runs the episodes, in whatever process. All goes through JSON, so that nothing depends on which one it is."""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from rl.base.errors import RatchetError, UsageError
from rl.environments.base import AgentEnv
from rl.environments.contract import Action, ToolRequest
from rl.environments.crew.contract import Move, Opening
from rl.environments.settings import EnvironmentSettings

LARGEST_ANSWER = 16 * 2**20
"""Characters of what comes of one action, as JSON."""
_LONGEST_REASON = 500
log = logging.getLogger(__name__)


class Stage:
    """One environment for each episode's index, kept for later episodes unless it breaks."""

    def __init__(self, settings: EnvironmentSettings) -> None:
        self._settings = settings
        self._environments: dict[int, AgentEnv] = {}

    def begin(self, index: int, task: Mapping[str, Any]) -> str:
        """An Opening as JSON. Raises UsageError where no environment can be made."""
        environment = self._environment(index)
        try:
            messages = tuple(environment.reset(task))
            return _json(Opening(messages, tuple(environment.tools.schemas)))
        except (Exception, SystemExit) as error:
            return _json(Opening(broken=self._drop_broken(index, "when it began", error)))

    def act(self, index: int, action: Mapping[str, Any]) -> str:
        """A Move as JSON. ``action``: an Action as JSON has it."""
        try:
            return _json(_move(self._environments[index], _action(action)))
        except (Exception, SystemExit) as error:
            return _json(Move(broken=self._drop_broken(index, "in a step", error)))

    def close(self) -> None:
        self._environments = {}

    def _environment(self, index: int) -> AgentEnv:
        if index not in self._environments:
            self._environments[index] = _build_environment(self._settings)
        return self._environments[index]

    def _drop_broken(self, index: int, when: str, error: BaseException) -> str:
        del self._environments[index]
        reason = " ".join(f"{type(error).__name__}: {error}".split())[:_LONGEST_REASON]
        message = f"the environment {self._settings.type} broke {when}: {reason}"
        log.warning(message, exc_info=error)
        return message


def _build_environment(settings: EnvironmentSettings) -> AgentEnv:
    try:
        return settings.build()
    except RatchetError as error:
        raise UsageError(str(error)) from error
    except (Exception, SystemExit) as error:
        raise UsageError(f"the environment {settings.type} cannot be made: {type(error).__name__}: {error}") from error


def _move(environment: AgentEnv, action: Action) -> Move:
    calls_before = len(environment.calls)
    step = environment.step(action)
    reward = _finite(environment.get_reward()) if step.done else None
    calls = tuple(environment.calls[calls_before:])
    return Move(str(step.observation), bool(step.done), calls, step.info, reward, step.observations)


def _action(document: Mapping[str, Any]) -> Action:
    calls = tuple(ToolRequest(call["name"], call["arguments"]) for call in document["calls"])
    return Action(document["text"], calls, document["error"])


def _finite(reward: float) -> float:
    if not math.isfinite(reward):
        raise ValueError(f"its reward is {reward}")
    return float(reward)


def _json(answer: Opening | Move) -> str:
    text = json.dumps(asdict(answer))
    if len(text) > LARGEST_ANSWER:
        raise ValueError(f"what came of it is larger than {LARGEST_ANSWER // 2**20} MiB")
    return text
