"""Train on rewarded answers, and measure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.core.management.base import CommandParser

from rl.management.base import RatchetCommand
from rl.management.options import read_options
from rl.management.training import train_command
from rl.management.training_options import (
    DataGroup,
    RolloutGroup,
    TrainOptions,
    add_data_options,
    add_rollout_options,
    add_run_options,
    add_training_options,
)


@dataclass(frozen=True, kw_only=True)
class Options(TrainOptions, DataGroup, RolloutGroup):
    top_k: int | None
    mini_batch_size: int | None
    ppo_epochs: int | None
    init_kl_coef: float | None
    target_kl: float | None
    kl_horizon: int | None
    missing_eos_penalty: float | None
    gamma: float | None
    lam: float | None
    cliprange: float | None
    cliprange_value: float | None
    vf_coef: float | None


class Command(RatchetCommand):
    help = (
        "Train a LoRA adapter by proximal policy optimisation (PPO): answers are generated, rewarded and learned from."
    )

    def add_options(self, parser: CommandParser) -> None:
        add_data_options(parser)
        add_training_options(parser)
        add_rollout_options(parser)
        ppo = parser.add_argument_group("PPO")
        ppo.add_argument("--top-k", type=int, help="sample among so many of the likeliest tokens; 0: all")
        ppo.add_argument("--mini-batch-size", type=int, help="answers in one update")
        ppo.add_argument("--ppo-epochs", type=int, help="passes over each batch of answers")
        ppo.add_argument("--init-kl-coef", type=float, help="first weight of the divergence from the base model")
        ppo.add_argument("--target-kl", type=float, help="nats an answer that the weight steers to; 0: it stays")
        ppo.add_argument("--kl-horizon", type=int, help="answers over which the weight can change by 20 %%")
        ppo.add_argument("--missing-eos-penalty", type=float, help="off the reward of an answer that does not end")
        ppo.add_argument("--gamma", type=float, help="discount of later rewards")
        ppo.add_argument("--lam", type=float, help="of generalised advantage estimation")
        ppo.add_argument("--cliprange", type=float, help="how far a probability may move in one batch")
        ppo.add_argument("--cliprange-value", type=float, help="how far a value may move in one batch")
        ppo.add_argument("--vf-coef", type=float, help="weight of the value's loss")
        add_run_options(parser)

    def run(self, **arguments: Any) -> None:
        options = read_options(Options, arguments)
        train_command(self, "ppo", options)
