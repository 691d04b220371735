"""Episodes, one after the other: a policy answers, the environment observes, until it is done."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rl.environments.base import Environment
from rl.environments.markup import read_action
from rl.records import Message, ToolCall

Policy = Callable[[Sequence[Message], Sequence[Mapping[str, Any]]], str]
"""What it says next, with its tool calls as markup, from the chat so far and the schemas of the tools."""


@dataclass(frozen=True, slots=True)
class Episode:
    task_id: str
    messages: tuple[Message, ...]
    """The whole chat; observations have the role "tool"."""
    tool_calls: tuple[ToolCall, ...]
    reward: float
    success: bool
    reason: str
    """Why it ended as it did, one sentence."""
    info: Mapping[str, Any]
    """Of the last step."""


def run_episode(environment: Environment, task: Mapping[str, Any], policy: Policy) -> Episode:
    """Raises what the policy raises."""
    messages = list(environment.reset(task))
    while True:
        said = policy(messages, environment.tools.schemas)
        messages.append(Message(role="assistant", content=said))
        step = environment.step(read_action(said))
        if step.done:
            return _episode(environment, task, messages, step.info)
        messages.append(Message(role="tool", content=step.observation))


def run_episodes(environment: Environment, tasks: Iterable[Mapping[str, Any]], policy: Policy) -> Iterator[Episode]:
    """In the order of the tasks."""
    for task in tasks:
        yield run_episode(environment, task, policy)


def _episode(
    environment: Environment, task: Mapping[str, Any], messages: Sequence[Message], info: Mapping[str, Any]
) -> Episode:
    return Episode(
        task_id=str(task["task_id"]),
        messages=tuple(messages),
        tool_calls=tuple(environment.calls),
        reward=environment.get_reward(),
        success=info["success"],
        reason=info["reason"],
        info=info,
    )
