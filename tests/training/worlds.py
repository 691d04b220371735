"""Environments in which the model of ``answering``, which thanks or waits about equally often, can do well or badly."""

import os
import random
import signal
from collections.abc import Mapping, Sequence
from typing import Any

from rl.base.records import Message
from rl.environments.base import AgentEnv
from rl.environments.contract import Action, Judgement, Step, ToolRequest
from rl.environments.tools import BaseTool


class Patient(AgentEnv):
    """Asks the same again in each of ``rounds``. Who waits in the last one is rewarded; of himself he would rather thank."""

    def __init__(self, *, rounds: int = 2, **settings: Any) -> None:
        super().__init__(**settings)
        self._rounds = rounds

    def prompt(self, task: Mapping[str, Any]) -> str:
        return f"Question number {task['number']}?"

    def step(self, action: Action) -> Step:
        if self.turn + 1 == self._rounds:
            return super().step(action)
        self.turn += 1
        return Step(self.prompt(self.task), 0.0, False, self._info())

    def judge(self, answer: str) -> Judgement:
        return Judgement(answer.startswith("Perhaps"), "it waits, or not")


class ByLot(Patient):
    """Whatever was said."""

    def __init__(self, *, seed: int = 0, **settings: Any) -> None:
        super().__init__(**settings)
        self._lots = random.Random(seed)

    def judge(self, answer: str) -> Judgement:
        return Judgement(self._lots.random() < 0.5, "by lot")


class InTurn(Patient):
    """What is heard next, and whether it is rewarded whatever is said, changes from episode to episode: the same in each
    process that plays whole groups of four."""

    begun = 0

    def step(self, action: Action) -> Step:
        if not self.turn:
            InTurn.begun += 1
            self.turn, self._number = 1, InTurn.begun % 4
            heard = ("Thank you.", "Perhaps it.", "open page", "Question number 3?")[self._number]
            return Step(heard, 0.0, False, self._info())
        return super().step(action)

    def judge(self, answer: str) -> Judgement:
        return Judgement(self._number % 2 == 0, "in turn")


class Fragile(Patient):
    """Breaks when a task that is ``broken`` begins, when an answer begins as ``breaks_at``, and for the first ``breaks``
    answers."""

    judged = 0

    def __init__(self, *, breaks: int = 0, breaks_at: str = "?", **settings: Any) -> None:
        super().__init__(**settings)
        self._breaks, self._breaks_at = breaks, breaks_at

    def reset(self, task: Mapping[str, Any]) -> list[Message]:
        if task.get("broken"):
            raise ConnectionError("nobody is there")
        return super().reset(task)

    def judge(self, answer: str) -> Judgement:
        Fragile.judged += 1
        if Fragile.judged <= self._breaks or answer.startswith(self._breaks_at):
            raise ConnectionError("nobody judges")
        return super().judge(answer)


class Crash(BaseTool):
    """Kills the process that it is called in."""

    name = "crash"

    def run(self) -> str:
        """Crashes."""
        os.kill(os.getpid(), signal.SIGKILL)
        return ""


class Crashing(Patient):
    """Whatever is said in a task that ``crashes`` calls the tool."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.tools = self.tools.with_tools([Crash()])

    def step(self, action: Action) -> Step:
        return super().step(Action("", (ToolRequest("crash"),)) if self.task.get("crashes") else action)


class Reader(AgentEnv):
    """Opens a page for who says so, and wants to hear what is on it. The model never does the one before the other."""

    def prompt(self, task: Mapping[str, Any]) -> str:
        return f"Question number {task['number']}?"

    def demonstration(self, task: Mapping[str, Any]) -> Sequence[Action]:
        answer = Action("Thank you." if task.get("wrong") else "wait page.")
        return () if task.get("unknown") else (Action("open page."), answer)

    def step(self, action: Action) -> Step:
        if self.turn or not action.text.startswith("open page"):
            return super().step(action)
        self.turn += 1
        return Step("wait", 0.0, False, self._info())

    def judge(self, answer: str) -> Judgement:
        return Judgement(self.turn == 2 and answer.startswith("wait"), "what is on the page")


class Even(Patient):
    """Rewards answers of even length: whatever model, some are."""

    def judge(self, answer: str) -> Judgement:
        return Judgement(len(answer) % 2 == 0, "its length")
