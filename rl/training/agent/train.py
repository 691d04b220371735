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

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from itertools import islice
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from rl.base.errors import TrainingFailed, UsageError
from rl.base.records import Report, TrainingResult
from rl.config import AgentConfig
from rl.config.training_job import TrainingJob
from rl.data_formatter import read_training_rows
from rl.environments.crew import PROGRAM, Crew, crew
from rl.environments.program.programs import Programs
from rl.environments.settings import EnvironmentSettings
from rl.lm import loading, processes
from rl.lm.chat.format import ChatFormat
from rl.lm.generating import stop_at
from rl.lm.lengths import Limits
from rl.training import fitting
from rl.training.agent.episodes import Stage, WorldStage
from rl.training.agent.programs import ProgramStage
from rl.training.agent.rollouts import HeldOutTasks, Rollouts, episode_reward
from rl.training.agent.rows import demonstrate, task_rows
from rl.training.alive import Alive
from rl.training.grpo import Trainer, require_gpu_of_vllm, trainer_of, whole_groups
from rl.training.preparing import Start, prepare
from rl.training.warm_up import warm_up

_MEANS = ("grpo", "bnpo", "dr_grpo", "luspo", "sapo")
"""Losses that are a mean over the rows of a pass; the others are sums that the tokens of the whole step divide."""
Inputs = dict[str, Any]


def train(job: TrainingJob, report: Report) -> TrainingResult:
    """As grpo's. Raises UsageError for an environment that cannot be made, and TrainingFailed when no episode can be
    played any more; NotEnoughData where solutions are to be imitated and none works."""
    started = time.monotonic()
    config = job.config
    assert isinstance(config, AgentConfig)  # noqa: S101  the method's own
    loading.use_device(config.device)
    _require_possible(config)
    alive = Alive(report)
    with prepare(job, report) as start, _stage(start, config, alive) as stage:
        # rows: the tasks whose first messages leave room for a turn
        rows, lengths = task_rows(start, stage)
        config = whole_groups(config, len(rows), report)
        # policy: has imitated the environment's own solutions first, if the job asks for it
        model = warm_up(start, demonstrate(rows, stage, settings_of(config), report))
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
            trainer.add_callback(HeldOutTasks(trainer, stage, _held_out(job, config), config, report))
        alive.watch(trainer)
        with fitting.fast_passes(start, trainer.model, rereads=False):
            fitting.fit(trainer, job, start.checkpoint, report)
        weights = fitting.publish(trainer, start)
    return fitting.result(trainer, weights, lengths, time.monotonic() - started)


def settings_of(config: AgentConfig) -> EnvironmentSettings:
    return EnvironmentSettings(**config.environment)


@contextmanager
def _stage(start: Start, config: AgentConfig, alive: Alive) -> Iterator[Stage]:
    settings = settings_of(config)
    # programs are ended when the run is: a step need not last until the last of them has come to its end
    sign = alive.beat if settings.type == PROGRAM else alive
    with crew(settings, int(config.async_rollout_workers), sign) as world:
        yield stage_in(world, start.tokenizer, replace(start.limits, answer=int(config.max_new_tokens)), config)


def stage_in(world: Crew | Programs, tokenizer: PreTrainedTokenizerBase, limits: Limits, config: AgentConfig) -> Stage:
    chat = ChatFormat(tokenizer, config.policy_type)
    if isinstance(world, Programs):
        return ProgramStage(world, chat, limits)
    penalty = float(config.environment.get("options", {}).get("failure_penalty", 0.0))
    return WorldStage(world, chat, limits, penalty)


def _held_out(job: TrainingJob, config: AgentConfig) -> list[Mapping[str, Any]]:
    assert job.heldout_rows is not None  # noqa: S101
    rows = islice(read_training_rows(job.heldout_rows, "agent"), int(config.eval_tasks))
    return [row["task"] for row in rows]


def _require_possible(config: AgentConfig) -> None:
    require_gpu_of_vllm(config)
    if processes.cuts_models():
        raise TrainingFailed("episodes need the whole model in every process: train without FSDP and DeepSpeed")
    if config.vllm_server and processes.count() > 1:
        raise UsageError("episodes by a vLLM server are for one process: leave out --vllm-server or --num-processes")


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
