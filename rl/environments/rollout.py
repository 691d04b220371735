"""Episodes, one after the other: a policy answers, the environment observes, until it is done."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from rl.base.records import Message
from rl.environments.base import AgentEnv
from rl.environments.dialects.hermes import read_action
from rl.environments.episode import PlayedEpisode, Turn

Policy = Callable[[Sequence[Message], Sequence[Mapping[str, Any]]], str]
"""What it says next, with its tool calls as markup, from the chat so far and the schemas of the tools."""


def run_episode(environment: AgentEnv, task: Mapping[str, Any], policy: Policy) -> PlayedEpisode:
    """Raises what the policy raises."""
    prompt = environment.reset(task)
    messages, turns = list(prompt), []
    while not environment.done:
        reply = policy(messages, environment.tools.schemas)
        calls_before = len(environment.calls)
        step = environment.step(read_action(reply))
        turns.append(Turn(reply, tuple(environment.calls[calls_before:]), step.observation, None, step.observations))
        messages.append(Message(role="assistant", content=reply))
        messages += (Message(role="tool", content=part) for part in step.messages)
    return PlayedEpisode(
        task_id=str(task["task_id"]),
        task=task,
        environment=environment.name,
        prompt=tuple(prompt),
        turns=tuple(turns),
        reward=environment.get_reward(),
        success=step.info["success"],
        reason=step.info["reason"],
        info=step.info,
    )


def run_episodes(environment: AgentEnv, tasks: Iterable[Mapping[str, Any]], policy: Policy) -> Iterator[PlayedEpisode]:
    """In the order of the tasks."""
    for task in tasks:
        yield run_episode(environment, task, policy)
