"""What an agent did with tools, as tasks of the environment ``replay``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import islice
from typing import Any, NamedTuple

from rl.base.errors import NotEnoughData
from rl.dataset_builder.frozen.splitting import Split
from rl.dataset_builder.plan.shortage import plural
from rl.dataset_builder.read.replay_traces import RecordedTrace, traces_with_calls
from rl.dataset_builder.read.replay_verdicts import Verdicts
from rl.dataset_builder.rows.tasks import TaskSource
from rl.environments.settings import EnvironmentSettings
from rl.environments.tools.recorded import merge_traces, schemas_of
from rl.models import Agent, Episode

MOST_PROMPTS = 10_000
MOST_CALLS = 1000
"""Most tool calls of one prompt that are played back."""
NO_CALLS = "prompt: its calls of tools have arguments that cannot be read"


class Replays(NamedTuple):
    tasks: list[dict[str, Any]]
    held_out: list[dict[str, Any]]
    skipped: Counter[str]
    """Reason to how many prompts."""


def replay_source(agent: Agent, settings: EnvironmentSettings, val_split: float) -> TaskSource:
    """Raises NotEnoughData where there is nothing to train on."""
    replays = replay_tasks(agent, val_split)
    if not replays.tasks:
        raise NotEnoughData(_shortage(agent, replays))
    return TaskSource(settings, replays.tasks, replays.held_out, name="replay", left_out=replays.skipped)


def replay_tasks(agent: Agent, val_split: float = 0.2, limit: int = MOST_PROMPTS) -> Replays:
    """A task for each of ``limit`` prompts to which there are traces with calls of tools, by the hash of their words, with
    the calls of all of them. Prompts that an earlier training held out stay held out, whatever the share."""
    replays, verdicts, split = Replays([], [], Counter()), Verdicts(agent), Split(agent, val_split)
    for words, traces in islice(traces_with_calls(agent), limit):
        task = _task(words, traces, verdicts)
        if isinstance(task, str):
            replays.skipped[task] += 1
        elif any(trace.split == Episode.Split.EVAL for trace in traces) or split.is_held_out(words):
            replays.held_out.append(task)
        else:
            replays.tasks.append(task)
    return replays


def _task(words: str, traces: Sequence[RecordedTrace], verdicts: Verdicts) -> dict[str, Any] | str:
    """Or why there is none."""
    verdict = verdicts.of(words, traces)
    if isinstance(verdict, str):
        return verdict
    recorded = merge_traces([trace.tool_calls for trace in traces])[-MOST_CALLS:]
    if not recorded:
        return NO_CALLS
    tools = verdict.pop("tools", [])
    names = {tool["function"]["name"] for tool in tools}
    others = [call for call in recorded if call["tool_name"] not in names]
    return {
        "task_id": verdict.pop("task_id", "") + words[:12],
        "prompt": traces[0].messages,
        "tools": [*tools, *schemas_of(others)],
        "recorded": recorded,
        **verdict,
    }


def _shortage(agent: Agent, replays: Replays) -> str:
    if replays.held_out:
        return (
            f"{plural(len(replays.held_out), 'prompt')} of {agent.name} can be replayed, and held out: more are needed"
        )
    if replays.skipped:
        reasons = "; ".join(f"{count} × {reason}" for reason, count in replays.skipped.most_common())
        return f"no prompt of {agent.name} can be replayed: {reasons}"
    return (
        f"{agent.name} has no traces with calls of tools to be replayed: train it in an environment, record or import what "
        "it does, or name a folder of replay tasks by --dataset-dir"
    )
