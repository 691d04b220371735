"""What an episode of a program was worth, once the program has ended."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import Any

from rl.base.records import Message, ToolCall, TraceRecord
from rl.environments.contract import Judgement
from rl.environments.program.contract import ChatReply, ChatRequest, End
from rl.environments.program.environment import ProgramEnv
from rl.environments.program.keeper import Keeper
from rl.environments.program.process import Process
from rl.rewards import REWARDS
from rl.rewards.base import BaseReward
from rl.rewards.engine import RewardEngine

LAST_LINES = 3
"""Lines of what a program wrote that a reason has."""
LONGEST_LINE = 300
LONGEST_TAIL = 4000
"""Characters that are stored with an episode."""


@dataclass(frozen=True, slots=True)
class Play:
    """What is known of an episode when its program has ended."""

    task: Mapping[str, Any]
    folder: Path
    """In which the program worked."""
    calls: Sequence[tuple[ChatRequest, ChatReply]]
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


def judge(environment: ProgramEnv, play: Play, keeper: Keeper, stopped: Event) -> End:
    """Raises UsageError for a check that cannot be started and a task without an answer, RewardFailed for a reward that
    breaks. An episode without a single answer of the model says nothing about it: its reward is None."""
    info = _info(environment, play)
    failure = play.why_ended or _failure(environment, play)
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


def _failure(environment: ProgramEnv, play: Play) -> str:
    """Empty where the program ended well."""
    if not play.exit_code:
        return ""
    how = f"signal {-play.exit_code}" if play.exit_code < 0 else f"exit code {play.exit_code}"
    return f"the command ended with {how}{_last_lines(environment.redact(play.errors))}"


def _value(environment: ProgramEnv, play: Play, keeper: Keeper, stopped: Event) -> tuple[float | None, Judgement]:
    """From 0 to 1; None where there is none."""
    if environment.reward == "exit_code":
        return 1.0, Judgement(True, "the command ended with exit code 0")
    if environment.reward == "answer":
        judgement = environment.judge_answer(play.task, play.answer)
        return float(judgement.success), judgement
    if environment.engine_reward:
        return _engine_value(environment, environment.engine_reward, play)
    return _check_value(environment, play, keeper, stopped)


def _engine_value(environment: ProgramEnv, reward: BaseReward, play: Play) -> tuple[float | None, Judgement]:
    engine = RewardEngine(dict.fromkeys(REWARDS, 0.0) | {reward.name: 1.0}, rewards=[reward])
    [result] = engine.compute_all(trace_of(play))
    solved = result.value is not None and result.value >= environment.solved_at
    return result.value, Judgement(solved, f"{reward.name}: {result.reason}")


def trace_of(play: Play) -> TraceRecord:
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


def _check_value(environment: ProgramEnv, play: Play, keeper: Keeper, stopped: Event) -> tuple[float | None, Judgement]:
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
        return _score(environment, code, process)
    words = _last_lines(environment.redact(process.errors or process.output))
    return float(not code), Judgement(not code, f"the check ended with exit code {code}{words if code else ''}")


def _score(environment: ProgramEnv, code: int, process: Process) -> tuple[float | None, Judgement]:
    """The last line that the check printed."""
    line = (process.output.strip().splitlines() or [""])[-1].strip()
    with suppress(ValueError):
        if code == 0 and 0 <= (score := float(line)) <= 1:
            return score, Judgement(score >= environment.solved_at, f"the check gave {score:g}")
    words = _last_lines(environment.redact(process.errors))
    problem = f"the check gave no number from 0 to 1, but {line[:LONGEST_LINE]!r}, and exit code {code}{words}"
    return None, Judgement(False, problem)


def _info(environment: ProgramEnv, play: Play) -> dict[str, Any]:
    return {
        "turn": len(play.calls),
        "tool_calls": sum(len(reply.calls) for _, reply in play.calls),
        "exit_code": play.exit_code,
        "seconds": round(play.lasted, 2),
        "seconds_of_program": round(play.seconds, 2),
        "output": environment.redact(play.output)[-LONGEST_TAIL:],
        "errors": environment.redact(play.errors)[-LONGEST_TAIL:],
    }


def _last_lines(text: str) -> str:
    lines = ["".join(letter if letter.isprintable() else " " for letter in line) for line in text.splitlines()]
    lines = [line.strip()[:LONGEST_LINE] for line in lines if line.strip()][-LAST_LINES:]
    return f"; its last words: {' | '.join(lines)}" if lines else ""
