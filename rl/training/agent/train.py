"""Multi-turn GRPO (Shao et al., 2024) of an agent that calls tools, by TRL's GRPOTrainer.

Rows: of the kind "agent", with ``task``, what the environment makes an episode of, and ``prompt``, its first messages.

A group is several episodes of one task. The reward of an episode is its environment's; its advantage is (its reward -
the mean of its group) / the standard deviation of the group. What is maximised is grpo.py's, over the tokens that the
model said; what the environment added is masked. An episode whose world broke has no reward: it is left out of its
group, and masked.

Departs from TRL as grpo.py does, so every step holds whole groups, is on policy, and resumes; and the episodes come in
by ``rollout_func`` (rollouts.py): TRL's own support for environments would call the tools of a batch one after the
other.

Sizes: N episodes, M conversations of them, B conversations at most in a forward pass; P tokens of the longest prompt, T of
the longest conversation behind it. TRL has as many rewards as prompts, and everything else is done a conversation.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import Any

import torch
from datasets import Dataset, Features, List, Value
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from rl.base.errors import NotEnoughData, TrainingFailed, UsageError
from rl.base.records import Report, TrainingResult
from rl.config import AgentConfig
from rl.config.training_job import TrainingJob
from rl.data_formatter import read_training_rows
from rl.environments import environment_class
from rl.environments.contract import Action
from rl.environments.crew import PROGRAM, Crew, crew
from rl.environments.program.programs import Programs
from rl.environments.settings import EnvironmentSettings
from rl.lm import loading, processes
from rl.lm.chat.format import ChatFormat
from rl.lm.encoding import count_rows
from rl.lm.generating import stop_at
from rl.lm.lengths import LengthCount, TokenLimits
from rl.lm.log_probs import PromptAndAnswer
from rl.training import fitting
from rl.training.agent.episodes import Ids, Play, Stage, WorldStage
from rl.training.agent.programs import ProgramStage
from rl.training.agent.rollouts import HeldOutTasks, Rollouts, episode_reward
from rl.training.callbacks import Alive
from rl.training.grpo import Trainer, require_generator, trainer_of, whole_groups
from rl.training.imitating import warm_up
from rl.training.preparing import Start, check_lengths, prepare, write_arrow

_MEANS = ("grpo", "bnpo", "dr_grpo", "luspo", "sapo")
"""Losses that are a mean over the rows of a pass; the others are sums that the tokens of the whole step divide."""
Inputs = dict[str, Any]


def train(job: TrainingJob, report: Report) -> TrainingResult:
    """Raises UsageError for an environment that cannot be made, TrainingFailed when no episode can be played any more, and
    NotEnoughData where solutions are to be imitated and none works."""
    config = job.config
    assert isinstance(config, AgentConfig)  # noqa: S101  the method's own
    loading.use_device(config.device)
    require_generator(config)
    if processes.cuts_models():
        raise TrainingFailed("episodes need the whole model in every process: train without FSDP and DeepSpeed")
    if config.vllm_server and processes.count() > 1:
        raise UsageError("episodes by a vLLM server are for one process: leave out --vllm-server or --num-processes")
    alive = Alive(report)
    with prepare(job, report) as start, _stage(start, config, alive) as stage:
        # rows: the tasks whose first messages leave room for a turn
        rows, lengths = task_rows(start, stage)
        config = whole_groups(config, len(rows), report)
        # policy: has imitated the environment's own solutions first, if the job asks for it
        model = warm_up(start, demonstrate(rows, stage, settings_of(config), report), "structured")
        stop_at(model, stage.chat.end_ids)
        # episodes: played by the model in training, within each step
        rollouts = Rollouts(stage, rows, config, processes.reporter(report))
        trainer = trainer_of(
            start,
            config,
            model,
            rows.select_columns("prompt"),
            shuffled=not config.curriculum,
            kind=AgentTrainer,
            reward_funcs=episode_reward,
            rollout_func=rollouts,
        )
        if config.eval_interval and job.heldout_rows:
            held_out = islice(read_training_rows(job.heldout_rows, "agent"), int(config.eval_tasks))
            tasks = [row["task"] for row in held_out]
            trainer.add_callback(HeldOutTasks(trainer, stage, tasks, config, report))
        alive.watch(trainer)
        with fitting.fast_passes(start, trainer.model, rereads=False):
            fitting.fit(trainer, job, start.checkpoint, report)
        return fitting.finish(trainer, start, lengths)


def settings_of(config: AgentConfig) -> EnvironmentSettings:
    return EnvironmentSettings(**config.environment)


@contextmanager
def _stage(start: Start, config: AgentConfig, alive: Alive) -> Iterator[Stage]:
    settings = settings_of(config)
    # programs are ended when the run is: a step need not last until the last of them has come to its end
    sign = alive.beat if settings.type == PROGRAM else alive
    with crew(settings, int(config.async_rollout_workers), sign) as world:
        yield stage_in(world, start.tokenizer, replace(start.limits, answer=int(config.max_new_tokens)), config)


def stage_in(
    world: Crew | Programs, tokenizer: PreTrainedTokenizerBase, limits: TokenLimits, config: AgentConfig
) -> Stage:
    chat = ChatFormat(tokenizer, config.policy_type)
    if isinstance(world, Programs):
        return ProgramStage(world, chat, limits)
    penalty = float(config.environment.get("options", {}).get("failure_penalty", 0.0))
    return WorldStage(world, chat, limits, penalty)


class AgentTrainer(Trainer):
    def _generate_and_score_completions(self, inputs: list[Inputs]) -> Inputs:
        """Each conversation has the advantage of its episode: (N) becomes (M)."""
        outputs: Inputs = super()._generate_and_score_completions(inputs)
        assert isinstance(self.rollout_func, Rollouts)  # noqa: S101  it was given
        if self.rollout_func.episodes:
            outputs["advantages"] = outputs["advantages"][self.rollout_func.episodes]
        return outputs

    def compute_loss(self, model: Any, inputs: Inputs, *arguments: Any, **options: Any) -> Tensor:
        """Goes backward for all parts of a pass that is larger than B but the last, whose loss is returned with theirs."""
        parts = list(parts_of(inputs, self.args.per_device_train_batch_size))
        if len(parts) == 1:
            return super().compute_loss(model, inputs, *arguments, **options)
        rows, total = len(inputs["advantages"]), torch.zeros((), device=self.accelerator.device)
        for part in parts:
            weight = len(part["advantages"]) / rows if self.loss_type in _MEANS else 1.0
            loss = super().compute_loss(model, part, *arguments, **options) * weight
            if part is not parts[-1]:
                self.accelerator.backward(loss)
                total += loss.detach()
        return loss + total


def parts_of(inputs: Inputs, most: int) -> Iterator[Inputs]:
    """The rows in parts of at most ``most``, without the padding that a part does not need; all of them where they are
    that few."""
    rows = len(inputs["advantages"])
    if rows <= most:
        yield inputs
        return
    for start in range(0, rows, most):
        part = {
            name: value[start : start + most] if isinstance(value, Tensor) and value.ndim else value
            for name, value in inputs.items()
        }
        yield _trim(part)


def _trim(part: Inputs) -> Inputs:
    """Prompts are padded on the left (B, P), what follows on the right (B, T)."""
    prompt, length = part["prompt_mask"].shape[1], part["completion_mask"].shape[1]
    longest_prompt = int(part["prompt_mask"].sum(1).max())
    longest = int(part["completion_mask"].sum(1).max())
    of_prompt = ("prompt_ids", "prompt_mask")
    return {
        name: value[:, prompt - longest_prompt :]
        if name in of_prompt
        else value[:, :longest]
        if isinstance(value, Tensor) and value.ndim == 2 and value.shape[1] == length
        else value
        for name, value in part.items()
    }


TOGETHER = 16
"""Episodes that are begun or demonstrated at once."""
Schemas = Sequence[Mapping[str, Any]]
"""Schemas of tools, as a chat template takes them."""
_COLUMNS = Features({"prompt": Value("string"), "prompt_ids": List(Value("int32")), "task": Value("string")})
"""``prompt``: the row's number, which the trainer hands over in place of a prompt. ``task``: JSON."""


def task_rows(start: Start, stage: Stage) -> tuple[Dataset, LengthCount]:
    """The tasks that leave room for a turn, memory-mapped, in the order of the file, and what was too long of them."""
    lengths = LengthCount()

    def fitting() -> Iterator[dict[str, Any]]:
        kept, total = 0, count_rows(start.job.train_rows)
        for done, (row, tools) in enumerate(_with_tools(start, stage), start=1):
            ids = stage.chat.prompt_ids(row["prompt"], tools)
            if lengths.fit({"prompt_ids": ids}, stage.limits.prompt + 1):
                yield {"prompt": str(kept), "prompt_ids": ids, "task": json.dumps(row["task"])}
                kept += 1
            start.report("step", {"step": done, "total_steps": total, "metrics": {}})

    tasks = write_arrow(fitting(), start.path("tasks.arrow"), _COLUMNS)
    check_lengths(lengths, start, stage.limits, "tasks")
    return tasks, lengths


def _with_tools(start: Start, stage: Stage) -> Iterator[tuple[Mapping[str, Any], Schemas]]:
    """All tasks have the same tools, unless these come with the tasks. What programs ask is known when they ask it."""
    config = start.job.config
    assert isinstance(config, AgentConfig)  # noqa: S101  the method's own
    rows = read_training_rows(start.job.train_rows, "agent")
    if not isinstance(stage, WorldStage):
        yield from ((row, ()) for row in rows)
        return
    if environment_class(settings_of(config).type).tools_of_tasks:
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
    Nothing is played before the first is asked for. Raises NotEnoughData where there is none."""
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
