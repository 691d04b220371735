"""What a trainer tells of its progress, how it is stopped, and how its checkpoints get their names."""

import math
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from transformers import Trainer, TrainerCallback, TrainerState, TrainingArguments
from transformers.trainer_utils import SaveStrategy

from rl.base.errors import Interrupted, TrainingFailed
from rl.base.files import publish_directory
from rl.base.records import Report
from rl.lm import checkpoints, loading, processes

METRICS = {
    "loss": "loss",
    "rewards/accuracies": "accuracy",
    "rewards/margins": "margin",
    "accuracy": "accuracy",
    "token_accuracy": "token_accuracy",
    "tokens": "tokens",
    "right": "right",
    "margin": "margin",
    "brier_score": "brier_score",
    "mean_reward": "reward",
    "rewards/chosen": "chosen_reward",
    "rewards/rejected": "rejected_reward",
    "reward": "reward",
    "reward_std": "reward_std",
    "frac_reward_zero_std": "equal_groups",
    "completions/mean_length": "completion_length",
    "completions/clipped_ratio": "cut_completions",
    "kl": "kl",
    "entropy": "entropy",
    "clip_ratio/region_mean": "clip_ratio",
    "cispo_clip_ratio": "clip_ratio",
    "learning_rate": "learning_rate",
    "grad_norm": "grad_norm",
    "epoch": "epoch",
}
"""What is kept of the trainer's log, under the names that people see."""
_HELD_OUT = {
    "eval_loss": "held_out_loss",
    "eval_token_accuracy": "held_out_token_accuracy",
    "eval_rewards/accuracies": "held_out_accuracy",
}
_REWARDED = {"eval_reward": "held_out_reward"}
"""The same of a look at what was held out. Where its answers are rewarded, that alone says something."""
_KEPT = "the last checkpoint is from before that, and is kept"
COMPONENT = "component/"
"""Stands before a reward's name in the trainer's log: it is kept under its name, if no metric has that."""


def metrics_of(entry: dict[str, Any]) -> dict[str, float]:
    """One entry of the trainer's log, with short names. Empty for the summary at the end."""
    if "loss" not in entry:
        kept = _REWARDED if _REWARDED.keys() <= entry.keys() else _HELD_OUT
        return {short: float(entry[name]) for name, short in kept.items() if name in entry}
    rewards = {name: name.removeprefix(COMPONENT) for name in sorted(entry) if name.startswith(COMPONENT)}
    components = {name: f"reward_{short}" if short in METRICS.values() else short for name, short in rewards.items()}
    kept = {name: short for name, short in METRICS.items() if name in entry} | components
    return {short: float(entry[name]) for name, short in kept.items() if entry[name] is not None}


def steps_of(log: Iterable[dict[str, Any]]) -> list[dict[str, float]]:
    """The metrics of each step; a look at what was held out belongs to the step before it."""
    steps: list[dict[str, float]] = []
    for entry in log:
        if "loss" in entry:
            steps.append(metrics_of(entry))
        elif steps:
            steps[-1] |= metrics_of(entry)
    return steps


class ProgressCallback(TrainerCallback):
    """Reports each step, and within long steps that it is alive. A report that raises Interrupted ends the training after
    the current step, with a checkpoint if it saves any. The trainer then returns as if it had finished: ask ``stopped`` and
    raise it."""

    def __init__(self, report: Report, most_kl: float = math.inf) -> None:
        self.report = report
        self.most_kl = most_kl
        self.stopped: Interrupted | None = None
        self._metrics: dict[str, float] = {}

    def on_substep_end(self, args: Any, state: TrainerState, control: Any, **kwargs: Any) -> None:
        self._tell(state)

    def on_epoch_end(self, args: Any, state: TrainerState, control: Any, **kwargs: Any) -> None:
        control.should_evaluate = control.should_evaluate and self.stopped is None

    def on_prediction_step(self, args: Any, state: TrainerState, control: Any, **kwargs: Any) -> None:
        self._tell(state)

    def on_log(self, args: Any, state: TrainerState, control: Any, logs: Any = None, **kwargs: Any) -> None:
        metrics = metrics_of({"epoch": state.epoch, **(logs or {})})
        if not metrics:
            return
        self._metrics = metrics if "loss" in metrics else {**self._metrics, **metrics}
        self._tell(state)
        require_healthy(metrics, state.global_step, self.most_kl)
        self.stopped = processes.stopped_anywhere(self.stopped)
        if self.stopped is not None:
            control.should_training_stop = True
            control.should_save = args.save_strategy != SaveStrategy.NO

    def _tell(self, state: TrainerState) -> None:
        try:
            self.report("step", {"step": state.global_step, "total_steps": state.max_steps, "metrics": self._metrics})
        except Interrupted as stop:
            self.stopped = stop


class PublishedCheckpoints(TrainerCallback):
    """The trainer saves into its own, unfinished folder; what it has saved whole moves to ``output_dir``."""

    def __init__(self, output_dir: Path) -> None:
        self.output_dir = output_dir

    def on_save(self, args: TrainingArguments, state: TrainerState, control: Any, **kwargs: Any) -> None:
        processes.wait()  # each process saves its own random numbers
        if not processes.is_first():
            processes.wait()
            return
        saved = Path(args.output_dir) / f"checkpoint-{state.global_step}"
        # A pickle of the arguments; resuming does not need it, and nothing here should tempt anyone to load one.
        (saved / "training_args.bin").unlink(missing_ok=True)
        publish_directory(saved, self.output_dir / saved.name)
        checkpoints.remove_old(self.output_dir)
        processes.wait()


def require_healthy(metrics: Mapping[str, float], step: int, most_kl: float) -> None:
    """Raised before the trainer saves, so that no checkpoint holds broken weights: the last one is the last good one."""
    for name in ("loss", "grad_norm", "kl"):
        if not math.isfinite(metrics.get(name, 0.0)):
            raise TrainingFailed(
                f"the {name} became {metrics[name]} at step {step}: lower learning_rate or max_grad_norm, "
                f"or train with precision fp32; {_KEPT}"
            )
    if metrics.get("kl", 0.0) > most_kl:
        raise TrainingFailed(
            f"the KL divergence from the base model became {metrics['kl']:,.0f} at step {step}, more than {most_kl:,.0f}: "
            f"lower learning_rate, or hold it nearer to the base model with a larger beta or init_kl_coef; {_KEPT}"
        )


SECONDS = 1.0
"""Time between two signs of life."""


class Alive:
    """Call it often: at most once a second it reports the step that goes on. A report that raises Interrupted has been
    heard; the step goes on, because a checkpoint within a step would not resume to the same numbers, and whoever reports
    the end of the step is interrupted again."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self._trainer: Trainer | None = None
        self._last = time.monotonic()

    def watch(self, trainer: Trainer) -> None:
        """Every pass through the model, each token that is generated among them, is a sign."""
        self._trainer = trainer
        base = loading.base_within(trainer.accelerator.unwrap_model(trainer.model))
        base.register_forward_pre_hook(lambda *arguments: self())

    def __call__(self, *arguments: Any) -> None:
        with suppress(Interrupted):
            self.beat()

    def beat(self) -> None:
        """The same for who can make the step shorter when it is interrupted. Raises what the report raises."""
        if self._trainer is None or time.monotonic() - self._last < SECONDS:
            return
        self._last = time.monotonic()
        state = self._trainer.state
        self._report("step", {"step": state.global_step, "total_steps": state.max_steps, "metrics": {}})
