"""The settings of an environment whose agent is somebody's own program, and what an episode of one was worth, once the
program has ended."""

import json
import os
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import Any, ClassVar

from rl.base.errors import UsageError
from rl.base.foreign_programs import system_variables
from rl.base.records import Message, ToolCall, TraceRecord
from rl.environments.base import AgentEnv
from rl.environments.contract import Action, Judgement, Step
from rl.environments.program.openai_chat import ChatReply, End, ProgramRequest
from rl.environments.program.process import Keeper, Process
from rl.environments.search import judge_by_content
from rl.environments.tasks.records import PromptTask
from rl.environments.variables import require_named_texts, require_names, require_no_secrets, require_texts
from rl.rewards import REWARDS, reward_class
from rl.rewards.base import BaseReward
from rl.rewards.engine import RewardEngine, load_rewards

WAYS = ("exit_code", "check", "score", "answer")
"""What may say how good an episode was; beside these a reward of the engine, by its name or its path."""
LONGEST = 86_400.0
"""Seconds that a program may be given."""
_EXAMPLE = "[python3, agent.py]"
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
        self.command = require_texts("command", command, _EXAMPLE)
        self.check = require_texts("check", check, _EXAMPLE)
        self.folder, self.reward, self.solved_at = folder, reward, solved_at
        self.time_limit = _seconds("time_limit", time_limit)
        self.check_time_limit = _seconds("check_time_limit", check_time_limit)
        self._own = env or {}
        require_named_texts("env", self._own)
        require_names("env", self._own)
        require_no_secrets("env", (name for name, text in self._own.items() if text != "{api_key}"))
        self._names = require_texts("env_from", env_from, _EXAMPLE)
        require_names("env_from", self._names)
        if not self.command:
            raise UsageError("program needs a command: a list with the program and its arguments")
        if reward in ("check", "score") and not self.check:
            raise UsageError(f"the reward {reward} needs a check: a list with a program and its arguments")
        self.engine_reward: BaseReward | None = None
        if "." in reward:
            self.engine_reward = load_rewards({"own": reward})[0]
        elif reward not in WAYS:
            fresh = [name for name in REWARDS if reward_class(name).fresh]
            if reward not in fresh:
                known = f"{', '.join((*WAYS, *fresh))}, or the path of a reward of your own"
                raise UsageError(f"reward must be one of {known}, not {reward[:100]!r}")
            self.engine_reward = reward_class(reward)()

    def prompt(self, task: Mapping[str, Any]) -> str:
        return str(task["prompt"])

    def step(self, action: Action) -> Step:  # noqa: ARG002  as others of its kind
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
        of_openai = {"OPENAI_BASE_URL": address, "OPENAI_API_BASE": address, "OPENAI_API_KEY": key}
        return {"NO_PROXY": "127.0.0.1", **of_openai, **self.check_variables(address, key)}

    def check_variables(self, address: str = "", key: str = "") -> dict[str, str]:
        """Those of the check: it has no model of ours to speak to."""
        values = {"base_url": address, "api_key": key, "folder": self.folder}
        own = {name: _fill(text, values, "a value of env cannot have") for name, text in self._own.items()}
        return {**system_variables(), **own, **self._secrets()}

    def redact(self, text: str) -> str:
        """Without the values of secrets."""
        for value in filter(str.strip, self._secrets().values()):
            text = text.replace(value, "***")
        return text

    def _secrets(self) -> dict[str, str]:
        return {name: os.environ[name] for name in self._names if name in os.environ}


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


LONGEST_LINE = 300
LONGEST_TAIL = 4000
"""Characters that are stored with an episode."""


@dataclass(frozen=True, slots=True)
class ProgramPlay:
    """What is known of an episode when its program has ended."""

    task: Mapping[str, Any]
    folder: Path
    """In which the program worked."""
    calls: Sequence[tuple[ProgramRequest, ChatReply]]
    """Those that were answered."""
    exit_code: int | None
    """None where it was ended from here."""
    why_ended: str
    """One sentence where it was ended from here."""
    output: str
    errors: str
    seconds: float
    """Without the time in which it waited for the model."""
    lasted: float
    """Seconds, all of them."""

    @property
    def answer(self) -> str:
        """What it printed, or what the model said last where it printed nothing."""
        return self.output.strip() or (self.calls[-1][1].text if self.calls else "")


def judge(environment: ProgramEnv, play: ProgramPlay, keeper: Keeper, stopped: Event) -> End:
    """Raises UsageError for a check that cannot be started and a task without an answer, RewardFailed for a reward that
    breaks. An episode without a single answer of the model says nothing about it: its reward is None."""
    info = {
        "turn": len(play.calls),
        "tool_calls": sum(len(reply.calls) for _, reply in play.calls),
        "exit_code": play.exit_code,
        "seconds": round(play.lasted, 2),
        "seconds_of_program": round(play.seconds, 2),
        "output": environment.redact(play.output)[-LONGEST_TAIL:],
        "errors": environment.redact(play.errors)[-LONGEST_TAIL:],
    }
    failure = play.why_ended
    if not failure and play.exit_code:
        how = f"signal {-play.exit_code}" if play.exit_code < 0 else f"exit code {play.exit_code}"
        failure = f"the command ended with {how}{_last_lines(environment.redact(play.errors))}"
    if not play.calls:
        why = f"{failure or 'the command ended'}, and never asked the model at OPENAI_BASE_URL"
        return End(None, False, why, {**info, "failed": why})
    if stopped.is_set():
        return End(None, False, "the training was stopped", info)
    if play.why_ended:
        return End(environment.timeout_penalty, False, failure, {**info, "failed": failure, "timed_out": True})
    if failure:
        crashed = environment.reward != "exit_code"  # else it is how the program says that it failed
        return End(environment.failure_penalty, False, failure, {**info, "failed": failure, "crashed": crashed})
    value, judgement = _value(environment, play, keeper, stopped)
    least, most = environment.failure_penalty, environment.success_reward
    reward = None if value is None else least + value * (most - least)
    return End(reward, judgement.success, judgement.reason, {**info, **judgement.details})


def _value(
    environment: ProgramEnv, play: ProgramPlay, keeper: Keeper, stopped: Event
) -> tuple[float | None, Judgement]:
    """From 0 to 1; None where there is none."""
    if environment.reward == "exit_code":
        return 1.0, Judgement(True, "the command ended with exit code 0")
    if environment.reward == "answer":
        judgement = environment.judge_answer(play.task, play.answer)
        return float(judgement.success), judgement
    if reward := environment.engine_reward:
        engine = RewardEngine(dict.fromkeys(REWARDS, 0.0) | {reward.name: 1.0}, rewards=[reward])
        [result] = engine.compute_all(trace_of(play))
        solved = result.value is not None and result.value >= environment.solved_at
        return result.value, Judgement(solved, f"{reward.name}: {result.reason}")
    return _check_value(environment, play, keeper, stopped)


def trace_of(play: ProgramPlay) -> TraceRecord:
    """As rewards read an answer. Details are the task's ``metadata``."""
    request, _ = play.calls[0]
    calls = [ToolCall(call.name, dict(call.arguments)) for _, reply in play.calls for call in reply.calls]
    return TraceRecord(
        id="",
        agent="",
        prompt=tuple(Message(role=message.role, content=message.content) for message in request.messages),
        response=play.answer,
        tool_calls=tuple(calls),
        tokens_in=sum(reply.tokens_in for _, reply in play.calls),
        tokens_out=sum(reply.tokens_out for _, reply in play.calls),
        llm_calls=len(play.calls),
        duration_ms=round(play.lasted * 1000),
        details=play.task.get("metadata") or {},
    )


def _check_value(
    environment: ProgramEnv, play: ProgramPlay, keeper: Keeper, stopped: Event
) -> tuple[float | None, Judgement]:
    command = environment.arguments(environment.check, play.task, answer=play.answer)
    stdin = json.dumps({"task": play.task, "answer": play.answer}, ensure_ascii=False)
    process = Process(command, play.folder, environment.check_variables(), stdin, keeper)
    try:
        code = process.wait_unless(stopped, environment.check_time_limit)
    finally:
        process.end()
    if code is None:
        return 0.0, Judgement(False, f"the check took longer than {environment.check_time_limit:g} seconds")
    if environment.reward == "score":
        line = (process.output.strip().splitlines() or [""])[-1].strip()
        with suppress(ValueError):
            if code == 0 and 0 <= (score := float(line)) <= 1:
                return score, Judgement(score >= environment.solved_at, f"the check gave {score:g}")
        words = _last_lines(environment.redact(process.errors))
        problem = f"the check gave no number from 0 to 1, but {line[:LONGEST_LINE]!r}, and exit code {code}{words}"
        return None, Judgement(False, problem)
    words = _last_lines(environment.redact(process.errors or process.output))
    return float(not code), Judgement(not code, f"the check ended with exit code {code}{words if code else ''}")


def _last_lines(text: str) -> str:
    """The last three."""
    lines = ["".join(letter if letter.isprintable() else " " for letter in line) for line in text.splitlines()]
    lines = [line.strip()[:LONGEST_LINE] for line in lines if line.strip()][-3:]
    return f"; its last words: {' | '.join(lines)}" if lines else ""
