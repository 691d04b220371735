"""Train on pairs to score answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.core.management.base import CommandParser

from rl.management.base import RatchetCommand
from rl.management.options import read_options
from rl.management.training import train_command
from rl.management.training_options import (
    DataGroup,
    PairGroup,
    TrainOptions,
    add_data_options,
    add_pair_options,
    add_run_options,
    add_training_options,
)


@dataclass(frozen=True, kw_only=True)
class Options(TrainOptions, DataGroup, PairGroup):
    center_rewards: float | None


class Command(RatchetCommand):
    help = "Train a reward model, which scores answers as people would, and measure how right and how sure it is."

    def add_options(self, parser: CommandParser) -> None:
        add_data_options(parser)
        add_pair_options(parser)
        add_training_options(parser)
        parser.add_argument("--center-rewards", type=float, help="how strongly its numbers are held around 0")
        add_run_options(parser)

    def run(self, **arguments: Any) -> None:
        options = read_options(Options, arguments)
        train_command(self, "reward_model", options)
