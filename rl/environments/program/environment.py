"""The settings of an environment whose agent is somebody's own program."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from rl.base.errors import UsageError
from rl.base.foreign_programs import system_variables
from rl.environments.base import AgentEnv
from rl.environments.contract import Action, Judgement, Step
from rl.environments.search import judge_by_content
from rl.environments.tasks.records import PromptTask
from rl.environments.variables import require_names, require_no_secrets
from rl.rewards import REWARDS, reward_class
from rl.rewards.base import BaseReward
from rl.rewards.engine import load_rewards

WAYS = ("exit_code", "check", "score", "answer")
"""What may say how good an episode was; beside these a reward of the engine, by its name or its path."""
LONGEST = 86_400.0
"""Seconds that a program may be given."""
_FIELD = re.compile(r"\{(\w+)\}")


class ProgramEnv(AgentEnv):
    """Tasks: ``prompt``, and whatever the program reads. It is started once for each task, with OPENAI_BASE_URL set, and
    goes by itself; each answer of the model that it asks for is a turn."""

    name = "program"
    tasks = PromptTask
    tools_of_tasks = True
    judges_alone = False
    paths: ClassVar[tuple[str, ...]] = ("folder",)

    def __init__(
        self,
        *,
        command: Sequence[str] = (),
        folder: str = "",
        env: Mapping[str, str] | None = None,
        env_from: Sequence[str] = (),
        reward: str = "exit_code",
        check: Sequence[str] = (),
        solved_at: float = 0.5,
        time_limit: float = 300.0,
        check_time_limit: float = 60.0,
        max_turns: int = 32,
        **settings: Any,
    ) -> None:
        """``time_limit``: seconds of the program's own, without those in which it waits for the model. ``max_turns``: the
        most answers of the model that it gets. ``solved_at``: the least score that counts as success."""
        for key in ("system_prompt", "wrong_answer_ends"):
            if key in settings:
                raise UsageError(f"program has no setting {key}: what is asked is the program's own")
        super().__init__(max_turns=max_turns, **settings)
        self.command, self.check = _texts("command", command), _texts("check", check)
        self.folder, self.reward, self.solved_at = folder, reward, solved_at
        self.time_limit = _seconds("time_limit", time_limit)
        self.check_time_limit = _seconds("check_time_limit", check_time_limit)
        self._own, self._names = _variables(env or {}), _texts("env_from", env_from)
        require_names("env_from", self._names)
        if not self.command:
            raise UsageError("program needs a command: a list with the program and its arguments")
        if reward in ("check", "score") and not self.check:
            raise UsageError(f"the reward {reward} needs a check: a list with a program and its arguments")
        self.engine_reward = None if reward in WAYS else _engine_reward(reward)

    def prompt(self, task: Mapping[str, Any]) -> str:
        return str(task["prompt"])

    def step(self, action: Action) -> Step:
        raise UsageError("an episode of the environment program goes by itself, from its beginning to its end")

    def judge(self, answer: str) -> Judgement:
        return self.judge_answer(self.task, answer)

    def judge_answer(self, task: Mapping[str, Any], answer: str) -> Judgement:
        """Raises UsageError for a task without an answer."""
        if "answer" not in task:
            raise UsageError(f"the task {task['task_id']} has no answer, which the reward answer compares with")
        return judge_by_content(answer, str(task["answer"]))

    def arguments(self, command: Sequence[str], task: Mapping[str, Any], **more: str) -> list[str]:
        """The command with each ``{name}`` replaced by that field of the task, a text as it is and anything else as JSON.
        Raises UsageError for a name that there is not."""
        values = {**task, "folder": self.folder, **more}
        return [_fill(argument, values, f"the task {task['task_id']} has no field") for argument in command]

    def variables(self, address: str, key: str) -> dict[str, str]:
        """All that the program's environment has. Raises UsageError for one of ours that is not set."""
        missing = [name for name in self._names if name not in os.environ]
        if missing:
            raise UsageError(f"env_from: the environment variable {missing[0]} is not set")
        values = {"base_url": address, "api_key": key, "folder": self.folder}
        of_openai = {"OPENAI_BASE_URL": address, "OPENAI_API_BASE": address, "OPENAI_API_KEY": key}
        return {**system_variables(), "NO_PROXY": "127.0.0.1", **of_openai, **self._own_variables(values)}

    def check_variables(self) -> dict[str, str]:
        """Those of the check: it has no model of ours to speak to."""
        return {**system_variables(), **self._own_variables({"base_url": "", "api_key": "", "folder": self.folder})}

    def _own_variables(self, values: Mapping[str, str]) -> dict[str, str]:
        own = {name: _fill(text, values, "a value of env cannot have") for name, text in self._own.items()}
        return {**own, **self._secrets()}

    def redact(self, text: str) -> str:
        """Without the values of secrets."""
        for value in filter(str.strip, self._secrets().values()):
            text = text.replace(value, "***")
        return text

    def _secrets(self) -> dict[str, str]:
        return {name: os.environ[name] for name in self._names if name in os.environ}


def _engine_reward(name: str) -> BaseReward:
    """Raises UsageError."""
    if "." in name:
        return load_rewards({"own": name})[0]
    if name not in REWARDS or not reward_class(name).fresh:
        known = ", ".join((*WAYS, *(known for known in REWARDS if reward_class(known).fresh)))
        raise UsageError(f"reward must be one of {known}, or the path of a reward of your own, not {name[:100]!r}")
    return reward_class(name)()


def _texts(key: str, value: Any) -> tuple[str, ...]:
    if not isinstance(value, list | tuple) or not all(isinstance(text, str) and text for text in value):
        raise UsageError(f"{key} must be a list of texts, like [python3, agent.py]")
    return tuple(value)


def _variables(value: Any) -> Mapping[str, str]:
    if not isinstance(value, Mapping) or not all(isinstance(text, str) for pair in value.items() for text in pair):
        raise UsageError("env must be names with texts: numbers, true and false go in quotes")
    require_names("env", value)
    require_no_secrets("env", (name for name, text in value.items() if text != "{api_key}"))
    return value


def _seconds(key: str, value: float) -> float:
    if not 0 < value <= LONGEST:
        raise UsageError(f"{key} must be a number of seconds up to {LONGEST:g}, not {value!r:.50}")
    return value


def _fill(text: str, values: Mapping[str, Any], problem: str) -> str:
    def replace(match: re.Match[str]) -> str:
        if match[1] not in values:
            raise UsageError(f"{problem} {match[1]!r}, which {text[:100]!r} names")
        value = values[match[1]]
        return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)

    return _FIELD.sub(replace, text)
