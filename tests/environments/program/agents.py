"""Programs that ask a model, by the standard library alone: it starts faster than OpenAI's client."""

import sys
from collections.abc import Callable, Sequence
from typing import Any

from rl.environments.contract import ToolRequest
from rl.environments.program.environment import ProgramEnv
from rl.environments.program.openai_chat import CallRefused, ChatReply, End, ProgramRequest
from rl.environments.program.programs import Programs

ASK = """
import json, os, sys, urllib.error, urllib.request
task = json.load(sys.stdin)
def ask(messages, **more):
    address = os.environ["OPENAI_BASE_URL"] + "/chat/completions"
    request = urllib.request.Request(address, json.dumps({"messages": messages, **more}).encode())
    try:
        return json.load(urllib.request.urlopen(request))["choices"][0]
    except urllib.error.HTTPError as error:
        return json.load(error)
def user(text):
    return {"role": "user", "content": text}
"""
ONCE = 'print(ask([user(task["prompt"])])["message"]["content"])'
Answer = Callable[[ProgramRequest], ChatReply | CallRefused]


def program(code: str, **options: Any) -> ProgramEnv:
    return ProgramEnv(command=[sys.executable, "-c", ASK + code], **options)


def task(number: int = 0, **more: Any) -> dict[str, Any]:
    return {"task_id": f"t{number}", "prompt": f"What is {number}?", **more}


def echo(request: ProgramRequest) -> ChatReply:
    """Says what was said last."""
    return ChatReply(request.messages[-1].content, tokens_in=3, tokens_out=2)


def call(name: str, **arguments: Any) -> ChatReply:
    return ChatReply("", (ToolRequest(name, arguments),))


def play(
    environment: ProgramEnv, tasks: Sequence[dict[str, Any]], answer: Answer = echo, at_once: int = 0
) -> tuple[list[End], list[list[int]]]:
    """The ends, and the numbers of the episodes that were answered together."""
    batches = []
    with Programs(environment, at_once, lambda: None) as programs, programs.playing(tasks) as playing:
        while calls := playing.calls():
            batches.append([call.number for call in calls])
            for call in calls:
                call.answer(answer(call.request))
        return playing.ends(), batches
