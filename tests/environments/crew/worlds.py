"""Environments that are hostile, slow or broken, for crews to survive."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rl.base.errors import UsageError
from rl.base.records import Message
from rl.environments.base import AgentEnv
from rl.environments.contract import Judgement
from rl.environments.tools import BaseTool


class Act(BaseTool):
    """Does what it is told, in the process that runs the episode."""

    name = "act"
    seconds = 30.0

    def __init__(self, folder: str) -> None:
        self._folder = Path(folder)

    def run(self, what: str) -> str:
        """Does something.

        Args:
            what: The name of it.
        """
        return getattr(self, what)() or what

    def noise(self) -> None:
        sys.stdout.write("noise\n")
        sys.stdout.flush()
        os.write(1, b'[0, {"broken": "a lie"}]\n')
        subprocess.run(["echo", "more noise"], check=True)

    def read_input(self) -> str:
        return f"read {sys.stdin.read()!r}"

    def nap(self) -> str:
        began = time.monotonic()
        time.sleep(0.5)
        return json.dumps([began, time.monotonic()])

    def leave(self) -> None:
        os._exit(3)

    def kill(self) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    def fork_and_leave(self) -> None:
        """The child holds the pipes open."""
        if os.fork() == 0:
            time.sleep(60)
        (self._folder / "forked").touch()
        os._exit(4)

    def spawn(self) -> str:
        return str(subprocess.Popen(["sleep", "60"]).pid)

    def process(self) -> str:
        return str(os.getpid())

    def modules(self) -> str:
        return ",".join(sorted({name.partition(".")[0] for name in sys.modules} & {"torch", "django", "transformers"}))

    def hang(self) -> None:
        time.sleep(60)


class World(AgentEnv):
    """A task's ``reset`` says what its beginning does; an answer names what its judging does."""

    system_prompt = "Act."

    def __init__(self, *, folder: str = ".", tool_seconds: float = 30.0, **settings: Any) -> None:
        tool = Act(folder)
        tool.seconds = tool_seconds
        super().__init__((tool,), **settings)
        self.episodes = 0

    def reset(self, task: Mapping[str, Any]) -> list[Message]:
        self.episodes += 1
        match task.get("reset"):
            case "raise":
                raise ConnectionError("no\nanswer")
            case "exit":
                sys.exit(1)
            case "leave":
                os._exit(5)
            case "spoil":
                task["cat"] = "spoiled"  # type: ignore[index]
        return super().reset(task)

    def prompt(self, task: Mapping[str, Any]) -> str:
        return f"Where is {task.get('cat', 'Tom')}?"

    def judge(self, answer: str) -> Judgement:
        match answer:
            case "raise":
                raise ZeroDivisionError("division by zero")
            case "hang":
                time.sleep(60)
            case "large":
                return Judgement(True, "x" * 17 * 2**20)
            case "no json":
                return Judgement(True, "it is", details={"a set": {1, 2}})
            case "nan":
                self.success_reward = float("nan")
                return Judgement(True, "it is")
        return Judgement("box" in answer, "it looked", details={"episodes": self.episodes})


class Refusing(AgentEnv):
    def __init__(self, *, kind: str = "UsageError") -> None:
        raise {"UsageError": UsageError("there is no cat"), "ValueError": ValueError("a bad cat")}[kind]

    def prompt(self, task: Mapping[str, Any]) -> str:
        return ""

    def judge(self, answer: str) -> Judgement:
        return Judgement(True, "")
