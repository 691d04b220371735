"""What all environments share: turns, tools, and the end of an episode."""

import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from rl.base.errors import UsageError
from rl.base.records import Message, ToolCall
from rl.environments.contract import Action, Judgement, Step, ToolRequest
from rl.environments.tasks.records import AnyTask, Task
from rl.environments.tools import BaseTool, ToolFailed, ToolRegistry
from rl.environments.tools.registry import cut

LONGEST_OBSERVATION = 4000
"""Characters of one tool's result that the agent reads; the rest is cut and counted."""


class AgentEnv(ABC):
    """One episode at a time: ``reset`` with a task, then ``step`` until it is done. Reused for the next task.

    A new one says what a task's ``prompt`` is and judges the answer; tools are given to ``__init__``. Tasks are mappings
    with a ``task_id``. An episode that a tool or the world breaks ends with a reason and without success; only what makes
    every episode impossible raises."""

    name: ClassVar[str] = ""
    """Its name in ENVIRONMENTS, or its path ``module:Class`` where it is not in that table."""
    tasks: ClassVar[type[Task]] = AnyTask
    """How a line of a file of its tasks is checked and read."""
    system_prompt: ClassVar[str] = ""
    """Unless the settings have another."""
    tools_of_tasks: ClassVar[bool] = False
    """Its tools come with each task, and it takes no others."""
    judges_alone: ClassVar[bool] = True
    """It can say what an answer is worth that was given elsewhere."""
    paths: ClassVar[tuple[str, ...]] = ()
    """Settings that are folders, which a configuration file names from where it lies; empty is its own folder."""
    after_wrong_answer: ClassVar[str] = "The task is not solved yet. Go on."
    """What the agent reads after an answer that did not end the episode."""

    def __init__(
        self,
        tools: tuple[BaseTool, ...] = (),
        *,
        max_turns: int = 6,
        system_prompt: str | None = None,
        success_reward: float = 1.0,
        failure_penalty: float = 0.0,
        timeout_penalty: float | None = None,
        wrong_answer_ends: bool = True,
    ) -> None:
        """The penalties are rewards: 0 or less, for an episode that fails, or fails because time or turns ran out (None:
        as any other that fails). ``wrong_answer_ends``: the episode, so that there is one answer; else the agent goes on
        until it is right or out of turns."""
        if max_turns < 1:
            raise UsageError(f"max_turns must be 1 or more, not {max_turns}")
        self.tools = ToolRegistry(tools)
        self.max_turns = max_turns
        self.instructions = self.system_prompt if system_prompt is None else system_prompt
        self.success_reward = success_reward
        self.failure_penalty = failure_penalty
        self.wrong_answer_ends = wrong_answer_ends
        self.timeout_penalty = failure_penalty if timeout_penalty is None else timeout_penalty
        self.task: Mapping[str, Any] = {}
        self._begin()

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls.name = vars(cls).get("name") or f"{cls.__module__}:{cls.__qualname__}"

    def demonstration(self, task: Mapping[str, Any]) -> Sequence[Action]:  # noqa: ARG002  for those that know
        """How an agent would solve the task, turn by turn, where that is known, for a model to imitate before it learns by
        itself; empty otherwise."""
        return ()

    @abstractmethod
    def prompt(self, task: Mapping[str, Any]) -> str:
        """What the user asks."""

    @abstractmethod
    def judge(self, answer: str) -> Judgement:
        """``answer`` to ``self.task``."""

    def judge_call(self, call: ToolRequest) -> Judgement | None:  # noqa: ARG002  for those that know
        """What a call that was just made (``self.calls[-1]``) is worth; success ends the episode. None: answers count."""
        return None

    def reset(self, task: Mapping[str, Any]) -> list[Message]:
        self.task = task
        self._begin()
        question = Message(role="user", content=self.prompt(task))
        return [Message(role="system", content=self.instructions), question] if self.instructions else [question]

    def step(self, action: Action) -> Step:
        """Raises UsageError after the end of an episode."""
        if self.done:
            raise UsageError("the episode has ended: reset begins another")
        self.turn += 1
        if not action.calls and not action.error:
            judgement = self.judge(action.text)
            if judgement.success or self.wrong_answer_ends:
                return self._end(judgement)
            return self._go_on(self.after_wrong_answer)
        observations = [action.error] if action.error else []
        for call in action.calls:
            observations.append(self._observe(call))
            if (verdict := self.judge_call(call)) and verdict.success:
                return self._end(verdict)
        return self._go_on(*observations)

    def get_reward(self) -> float:
        """The reward of the whole episode so far."""
        return self._reward

    def _begin(self) -> None:
        self.turn, self.done = 0, False
        self.calls: list[ToolCall] = []
        self._reward = 0.0

    def _go_on(self, *observations: str) -> Step:
        if self.turn >= self.max_turns:
            what = "no answer" if self.wrong_answer_ends else "not solved"
            return self._end(Judgement(False, f"{what} within {self.max_turns} turns", timed_out=True))
        return Step("\n\n".join(observations), 0.0, False, self._info(), observations if len(observations) > 1 else ())

    def _observe(self, call: ToolRequest) -> str:
        """What one call brings; what goes wrong is an observation too."""
        started = time.monotonic()
        result, failure = "", ""
        try:
            result = self.tools.call(call.name, call.arguments)
        except ToolFailed as error:
            failure = str(error)
        took = (time.monotonic() - started) * 1000
        return self._record(ToolCall(call.name, dict(call.arguments), result or None, not failure, took, failure))

    def _record(self, call: ToolCall) -> str:
        """What the agent reads of a call that was made."""
        self.calls.append(call)
        return f"error: {call.error}" if call.error else cut(call.result or "", LONGEST_OBSERVATION)

    def _end(self, judgement: Judgement) -> Step:
        self.done = True
        penalty = self.timeout_penalty if judgement.timed_out else self.failure_penalty
        self._reward = self.success_reward if judgement.success else penalty
        verdict = {"success": judgement.success, "reason": judgement.reason, "timed_out": judgement.timed_out}
        return Step("", self._reward, True, {**self._info(), **verdict, **judgement.details})

    def _info(self) -> dict[str, Any]:
        return {"turn": self.turn, "tool_calls": len(self.calls)}
