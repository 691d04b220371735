"""The tasks of an agent as token ids, and solutions of them to imitate."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import Any

from datasets import Dataset, Features, List, Value

from rl.base.errors import NotEnoughData, TrainingFailed
from rl.base.records import Report
from rl.config import AgentConfig
from rl.data_formatter import read_training_rows
from rl.environments import environment_class
from rl.environments.contract import Action
from rl.environments.settings import EnvironmentSettings
from rl.lm.encoding import count_rows
from rl.lm.lengths import LengthCount
from rl.lm.log_probs import PromptAndAnswer
from rl.training.agent.episodes import Ids, Play, Stage, WorldStage
from rl.training.preparing import Start, write_arrow

TOGETHER = 16
"""Episodes that are begun or demonstrated at once."""
Schemas = Sequence[Mapping[str, Any]]
"""Schemas of tools, as a chat template takes them."""
_COLUMNS = Features({"prompt": Value("string"), "prompt_ids": List(Value("int32")), "task": Value("string")})
"""``prompt``: the row's number, which the trainer hands over in place of a prompt. ``task``: JSON."""


def task_rows(start: Start, stage: Stage) -> tuple[Dataset, LengthCount]:
    """The tasks that leave room for a turn, memory-mapped, in the order of the file, and what was too long of them."""
    target, lengths = start.path("tasks.arrow"), LengthCount()
    write_arrow(_fitting(start, stage, lengths), target, _COLUMNS)
    if lengths.rows == 0:
        raise NotEnoughData(f"{start.job.train_rows} has no tasks to train on")
    lengths.check(stage.limits, start.report)
    return Dataset.from_file(str(target)), lengths


def _fitting(start: Start, stage: Stage, lengths: LengthCount) -> Iterator[dict[str, Any]]:
    kept, total = 0, count_rows(start.job.train_rows)
    for done, (row, tools) in enumerate(_with_tools(start, stage), start=1):
        ids = stage.chat.prompt_ids(row["prompt"], tools)
        if lengths.fit({"prompt_ids": ids}, stage.limits.prompt + 1):
            yield {"prompt": str(kept), "prompt_ids": ids, "task": json.dumps(row["task"])}
            kept += 1
        start.report("step", {"step": done, "total_steps": total, "metrics": {}})


def _with_tools(start: Start, stage: Stage) -> Iterator[tuple[Mapping[str, Any], Schemas]]:
    """All tasks have the same tools, unless these come with the tasks. What programs ask is known when they ask it."""
    config = start.job.config
    assert isinstance(config, AgentConfig)  # noqa: S101  the method's own
    rows = read_training_rows(start.job.train_rows, "agent")
    if not isinstance(stage, WorldStage):
        yield from ((row, ()) for row in rows)
        return
    if environment_class(EnvironmentSettings(**config.environment).type).tools_of_tasks:
        while batch := list(islice(rows, TOGETHER)):
            yield from zip(batch, _tools(stage, batch), strict=True)
        return
    shared: list[Schemas] = []
    for row in rows:
        shared = shared or _tools(stage, [row])
        yield row, shared[0]


def _tools(stage: WorldStage, rows: Sequence[Mapping[str, Any]]) -> list[Schemas]:
    tasks = [row["task"] for row in rows]
    openings = stage.crew.begin(tasks)
    for task, opening in zip(tasks, openings, strict=True):
        if opening.broken:
            raise TrainingFailed(f"the environment cannot begin the task {task['task_id']}: {opening.broken}")
    return [opening.tools for opening in openings]


def demonstrate(
    rows: Dataset, stage: Stage, settings: EnvironmentSettings, report: Report
) -> Iterator[PromptAndAnswer]:
    """The turns of the solutions that the environment knows and that earn its reward, each after what came before it.

    Nothing is played before the first is asked for. Raises NotEnoughData where there is none.
    """
    environment = replace(settings, tools={}).build()
    # solutions: scripts of actions, from the environment itself
    known = [
        (task, script) for row in iter(rows) if (script := environment.demonstration(task := json.loads(row["task"])))
    ]
    solved = 0
    for start in range(0, len(known), TOGETHER):
        part = known[start : start + TOGETHER]
        # played by heart: only what earns the reward is imitated
        policy = partial(by_heart, stage, [script for _, script in part])
        for play in stage.play([task for task, _ in part], policy):
            solved += play.success
            yield from turns_of(play) if play.success else ()
        report("step", {"step": min(start + TOGETHER, len(known)), "total_steps": len(known), "metrics": {}})
    if not solved:
        raise NotEnoughData(
            f"there is no solution to imitate: {len(known)} of {len(rows)} tasks have one, and none earned the reward"
        )


def by_heart(stage: Stage, scripts: Sequence[Sequence[Action]], plays: Sequence[Play]) -> list[Ids]:
    """Who is asked for more than the script has says its last line again."""
    return [stage.chat.turn_ids(scripts[play.number][: len(play.turns) + 1][-1]) for play in plays]


def turns_of(play: Play) -> Iterator[PromptAndAnswer]:
    """What the model said in each turn, after all that came before it."""
    # a turn is a run of ones in ``own``; the 0 that is appended ends the last one
    begin = 0
    for position, own in enumerate([*play.own, 0]):
        before = play.own[position - 1] if position else 0
        if own and not before:
            begin = position
        elif before and not own:
            yield play.prompt_ids + play.ids[:begin], play.ids[begin:position]
