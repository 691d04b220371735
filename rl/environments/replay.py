"""Episodes in a world that was recorded."""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from rl.base.records import Message, ToolCall
from rl.environments import environment_class
from rl.environments.base import AgentEnv
from rl.environments.contract import Action, Judgement, Step, ToolRequest
from rl.environments.tasks.records import ReplayTask
from rl.environments.tools.recorded import NeverRecorded, RecordedTool, Recording, arguments_of, schemas_of
from rl.environments.tools.registry import ToolRegistry

SHORT = 80
"""Characters of an accepted answer that may stand within a longer one."""


class ReplayEnv(AgentEnv):
    """Tasks: the ``prompt`` as messages, the ``recorded`` calls of tools, and what tells how good an answer is: the
    ``environment`` that the ``task`` came from, or the ``accepted`` answers. The results of tools are played back; a call
    that was never recorded ends the episode without success, and ``info["never_recorded"]`` has it."""

    name = "replay"
    tasks = ReplayTask
    tools_of_tasks = True

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self._recording = Recording(())
        self._judges: dict[str, AgentEnv] = {}

    def reset(self, task: Mapping[str, Any]) -> list[Message]:
        """Instructions of the settings take the place of those in the prompt."""
        self._recording = Recording(task["recorded"])
        schemas = task.get("tools") or schemas_of(task["recorded"])
        self.tools = ToolRegistry([RecordedTool(schema, self._recording) for schema in schemas])
        *instructions, _ = super().reset(task)
        return [
            *instructions,
            *(message for message in task["prompt"] if not instructions or message["role"] != "system"),
        ]

    def prompt(self, task: Mapping[str, Any]) -> str:
        """What was asked last."""
        return next((message["content"] for message in reversed(task["prompt"]) if message["role"] == "user"), "")

    def demonstration(self, task: Mapping[str, Any]) -> Sequence[Action]:
        """The recorded turns that solved it."""
        *turns, answer = task.get("solution") or [""]
        if not turns and not answer:
            return ()
        requests = [
            tuple(ToolRequest(call["tool_name"], arguments_of(call) or {}) for call in calls) for calls in turns
        ]
        return *(Action("", of_turn) for of_turn in requests), Action(answer)

    def step(self, action: Action) -> Step:
        try:
            return super().step(action)
        except NeverRecorded as missing:
            call = self.calls[-1]
            request = {"tool_name": call.tool_name, "arguments": call.arguments}
            return self._end(Judgement(False, str(missing), details={"never_recorded": request}))

    def judge(self, answer: str) -> Judgement:
        if "environment" not in self.task:
            return judge_by_accepted(answer, self.task["accepted"])
        return self._judge().judge(answer)

    def judge_call(self, call: ToolRequest) -> Judgement | None:
        return self._judge().judge_call(call) if "environment" in self.task else None

    def _judge(self) -> AgentEnv:
        """The environment that the task comes from, with what was called so far."""
        name, options = self.task["environment"], self.task.get("options") or {}
        key = json.dumps([name, options], sort_keys=True)
        if key not in self._judges:
            self._judges[key] = environment_class(name)(**options)
        judge = self._judges[key]
        judge.reset(self.task["task"])
        judge.calls = self.calls
        return judge

    def _observe(self, call: ToolRequest) -> str:
        try:
            return self._record(self._recording.play(call.name, call.arguments))
        except NeverRecorded as missing:
            self._record(ToolCall(call.name, dict(call.arguments), None, False, 0.0, str(missing)))
            raise


def judge_by_accepted(answer: str, accepted: Sequence[str]) -> Judgement:
    """Success for an answer that says the same as one of them, or that has a short one in it as words of its own. Case,
    white space, and marks at the end tell nothing apart."""
    plain_answer = _plain(answer)
    for text in map(_plain, accepted):
        if plain_answer == text:
            return Judgement(True, "the answer is one that was accepted")
        if text and len(text) <= SHORT and re.search(rf"(?<!\w){re.escape(text)}(?!\w)", plain_answer):
            return Judgement(True, "the answer contains one that was accepted")
    return Judgement(False, "the answer is none of those that were accepted")


def _plain(text: str) -> str:
    return " ".join(text.casefold().split()).rstrip(".!? ")
