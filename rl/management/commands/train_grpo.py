"""Train on rewards of answers, and measure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.core.management.base import CommandParser

from rl.config import GRPOConfig
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
    rollouts: str | None
    num_generations: int | None
    loss_type: str | None
    beta: float | None
    vllm: bool | None
    vllm_server: str | None


class Command(RatchetCommand):
    help = "Train a LoRA adapter by group relative policy optimisation (GRPO): answers compete for rewards."

    def add_options(self, parser: CommandParser) -> None:
        add_data_options(parser)
        add_training_options(parser)
        parser.add_argument(
            "--rollouts", choices=GRPOConfig.CHOICES["rollouts"], help="generate answers, or use stored"
        )
        parser.add_argument("--num-generations", type=int, help="answers to a prompt, compared with each other")
        parser.add_argument("--loss-type", choices=GRPOConfig.CHOICES["loss_type"], help="how tokens are averaged")
        parser.add_argument("--beta", type=float, help="weight of the divergence from the base model")
        add_rollout_options(parser)
        vllm = parser.add_mutually_exclusive_group()
        vllm.add_argument("--vllm", action="store_const", const=True, help="generate with vLLM on the GPU that trains")
        vllm.add_argument("--vllm-server", metavar="URL", help="generate on a vLLM server")
        add_run_options(parser)

    def run(self, **arguments: Any) -> None:
        options = read_options(Options, arguments)
        train_command(self, "grpo", options)
