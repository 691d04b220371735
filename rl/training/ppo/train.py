"""Proximal policy optimisation (Schulman et al., 2017; Ziegler et al., 2019) of a language model: answer, reward, learn.

Rows: of the kind "prompts" (``prompt``, and details for the rewards). Each batch: the policy answers ``batch_size``
prompts; the agent's rewards or a reward model score the answers, less a penalty at each token for moving away from the
base model; generalised advantage estimation says which tokens did better than the value network expected; some passes
in mini-batches follow. The penalty's weight adapts to the divergence. Several processes share the answers of each batch
and the rows of each mini-batch, each with whole copies of the networks.

Maximises the mean over answer tokens of min(q A, clip(q) A) - vf_coef (V - R)^2 / 2, where q is the token's probability
over that when it was generated, A its whitened advantage, V the value and R the return of score and penalties
(math.py).

TRL 1.16 has no trainer of this method, so the loop is our own. It departs from the papers: policy, value and reference
share one set of base weights (networks.py); gradients of policy and value are clipped apart; an answer that no reward
applies to counts as the mean of the others; and what ``top_k`` and ``top_p`` cut off is not corrected for, q being of
the temperature alone.

The state of a training is what it is between two batches: a checkpoint holds that, and a stop while answers are made or
rewarded goes back to it. All processes stop at the same place.
"""

from __future__ import annotations

import json
import math
import random
import time
from collections.abc import Callable, Mapping
from typing import Any

import torch
from datasets import Dataset
from transformers import PreTrainedTokenizerBase

from rl.base.errors import Interrupted, TrainingFailed, UsageError
from rl.base.records import Report, Scorer, TrainingResult, silent
from rl.config.ppo_config import PPOConfig
from rl.config.training_job import TrainingJob
from rl.lm import checkpoints, processes
from rl.lm.encoding import encode
from rl.training import fitting
from rl.training.fresh_prompts import scorer_of, tokenised_prompts
from rl.training.ppo.math import KLController
from rl.training.ppo.networks import Checkpoints, Networks, Progress
from rl.training.ppo.rollout import Collector, Rollout, Updater
from rl.training.preparing import Start, prepare

KL_LIMIT = 10
"""Times ``target_kl``: beyond such a divergence nothing is learned any more. Without a target MOST_KL is the limit."""
PATIENCE = 3
"""Batches in a row beyond the limit that end the training."""


def train(job: TrainingJob, report: Report) -> TrainingResult:
    """What appears is the policy."""
    config = job.config
    assert isinstance(config, PPOConfig)  # noqa: S101  the method's own
    # every process has whole networks, and equally many answers
    if processes.cuts_models():
        raise UsageError(
            "ppo keeps whole copies of its networks: use a configuration of accelerate without FSDP, DeepSpeed"
        )
    if config.batch_size % processes.count():
        raise UsageError(f"batch_size {config.batch_size} cannot be shared by {processes.count()} processes")
    with prepare(job, report) as start:
        rows, lengths = tokenised_prompts(start, config.max_new_tokens)
        prompts = PromptBatches(rows, start.tokenizer, int(config.seed))
        loop = _Loop(start, config, scorer_of(job), prompts, processes.reporter(report))
        if start.checkpoint:
            loop.checkpoints.load(start.checkpoint, loop.progress)
        report("stage", {"name": "training"})
        loop.run()
        weights = fitting.publish_weights(loop.networks.policy, start)
        trainable = sum(weight.numel() for weight in loop.networks.policy_weights())
        counts = {"trainable_parameters": trainable, **fitting.left_out(lengths)}
        seconds = time.monotonic() - start.began
        return fitting.summary(weights, loop.progress.step, loop.progress.log, counts, seconds)


class _Loop:
    def __init__(self, start: Start, config: PPOConfig, scorer: Scorer, prompts: PromptBatches, report: Report) -> None:
        self.config, self.report, self.prompts = config, report, prompts
        model = start.model()
        # the adapters' first weights; every batch has seeds of its own later
        torch.manual_seed(int(config.seed))
        self.networks = Networks(model, config)
        self.collect = Collector(self.networks, start.tokenizer, scorer, config)
        self.update = Updater(self.networks, config)
        self.checkpoints = Checkpoints(self.networks, self.update.optimizer, start.job.output_dir, start.scratch)
        self.progress = Progress(KLController(config.init_kl_coef, config.target_kl, config.kl_horizon))
        self.steps = config.steps(len(prompts))

    def run(self) -> None:
        while self.progress.step < self.steps:
            # batch: answers, rewards and updates; then health, checkpoint and stop, in all processes at the same place
            metrics, stopped = self._batch()
            self._check(metrics)
            self.progress.step += 1
            self.progress.log.append(metrics)
            if not stopped:
                try:
                    self._report_step(metrics)
                except Interrupted as stop:
                    stopped = stop
            stopped = processes.stopped_anywhere(stopped)
            is_due = self.progress.step % int(self.config.save_steps) == 0
            if stopped or (is_due and not self.progress.diverging):  # from one that runs away nobody goes on
                self.checkpoints.save(self.progress)
            if stopped:
                raise stopped

    def _batch(self) -> tuple[dict[str, float], Interrupted | None]:
        """What was measured, and whether it was asked to stop while it learned: then it is too late to go back."""
        # answers and their rewards: until here a stop goes back to before this batch
        rollout = self._rollout()
        heart = _Heart(self._beat)
        self._seed("order")
        # update of policy and value, then of the KL penalty's weight by the divergence that the answers had
        rate = _learning_rate(self.config, self.progress.step, self.steps)
        learned = self.update(rollout, rate, heart)
        self.progress.controller.update(rollout.metrics["kl"], len(rollout.sequences))
        epoch = (self.progress.step + 1) * self.config.batch_size / len(self.prompts)
        return {**learned, **rollout.metrics, "epoch": epoch}, heart.stopped

    def _rollout(self) -> Rollout:
        rows = self.prompts.batch(self.progress.step, int(self.config.batch_size))
        heart = _Heart(self._beat, at_once=processes.count() == 1)
        # answers: each process draws others, so each has a seed of its own
        self._seed(f"answers of process {processes.rank()}")
        try:
            rollout = self.collect(rows, self.progress.controller.coefficient, heart)
            if stopped := processes.stopped_anywhere(heart.stopped):
                raise stopped
        except Interrupted:
            if self.progress.step:
                self.checkpoints.save(self.progress)
            raise
        return rollout

    def _seed(self, of: str) -> None:
        """The same in each attempt at this batch."""
        torch.manual_seed(random.Random(f"{self.config.seed} {self.progress.step} {of}").getrandbits(63))  # noqa: S311

    def _beat(self) -> None:
        self._report_step(self.progress.log[-1] if self.progress.log else {})

    def _report_step(self, metrics: Mapping[str, float]) -> None:
        self.report("step", {"step": self.progress.step, "total_steps": self.steps, "metrics": metrics})

    def _check(self, metrics: Mapping[str, float]) -> None:
        step = self.progress.step + 1
        for name in ("loss", "grad_norm", "kl", "reward"):
            if not math.isfinite(metrics[name]):
                raise TrainingFailed(
                    f"the {name} became {metrics[name]} in batch {step}: lower learning_rate or max_grad_norm, "
                    f"or train with precision fp32; {self._describe_checkpoint()}"
                )
        # running away: a single batch far off may come back, several in a row do not
        limit = KL_LIMIT * self.config.target_kl or self.config.MOST_KL
        self.progress.diverging = self.progress.diverging + 1 if limit < metrics["kl"] else 0
        if self.progress.diverging >= PATIENCE:
            raise TrainingFailed(
                f"the policy ran away from the base model: {metrics['kl']:.0f} nats an answer in batch {step}, more than "
                f"{limit:g} in {PATIENCE} batches in a row; lower learning_rate or raise init_kl_coef; "
                f"{self._describe_checkpoint()}"
            )

    def _describe_checkpoint(self) -> str:
        newest = checkpoints.newest_complete(self.checkpoints.output_dir)
        return f"the last good checkpoint is {newest}" if newest else "there is no checkpoint yet"


class _Heart:
    """Beats on, and remembers that it was asked to stop; one that stops at once would leave other processes waiting."""

    def __init__(self, beat: Callable[[], None], at_once: bool = False) -> None:
        self._beat, self._at_once = beat, at_once
        self.stopped: Interrupted | None = None

    def __call__(self) -> None:
        try:
            self._beat()
        except Interrupted as stop:
            if self._at_once:
                raise
            self.stopped = stop


def _learning_rate(config: PPOConfig, step: int, steps: int) -> float:
    """Rises to its peak, then falls as a cosine; never 0, because each batch has cost its answers."""
    # linear over the share ``warmup_ratio`` of the steps, then half a cosine down to just above 0
    warmup = config.warmup_ratio * steps
    if step + 1 <= warmup:
        return config.learning_rate * (step + 1) / warmup
    return config.learning_rate * 0.5 * (1 + math.cos(math.pi * (step - warmup) / max(1.0, steps - warmup)))


class PromptBatches:
    """Each pass over the rows has an order of its own, by the seed alone; batches go on from one pass into the next.
    ``rows``: as ``tokenised_prompts`` leaves them."""

    def __init__(self, rows: Dataset, tokenizer: PreTrainedTokenizerBase, seed: int) -> None:
        self._rows, self._tokenizer, self._seed = rows, tokenizer, seed

    def __len__(self) -> int:
        return len(self._rows)

    def batch(self, number: int, size: int) -> list[dict[str, Any]]:
        """Rows of the training set, and their ``prompt_ids``."""
        rows = []
        for position in range(number * size, (number + 1) * size):
            epoch, index = divmod(position, len(self._rows))
            rows.append(json.loads(self._rows[self._order(epoch)[index]]["row"]))
        encoded = encode(self._tokenizer, rows, len(rows), silent, ())
        return [{**row, "prompt_ids": ids["prompt_ids"]} for row, ids in zip(rows, encoded, strict=True)]

    def _order(self, epoch: int) -> list[int]:
        generator = torch.Generator().manual_seed(self._seed + epoch)
        return torch.randperm(len(self._rows), generator=generator).tolist()
