"""Train on pairs, and measure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.core.management.base import CommandParser

from rl.config.method_configs import PREFERENCE_LOSSES, SMOOTHED
from rl.management.base import RatchetCommand
from rl.management.options import read_options
from rl.management.sweep_option import SweepGroup, add_sweep_option
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
class Options(TrainOptions, DataGroup, PairGroup, SweepGroup):
    beta: float | None
    preference_loss: str | None
    label_smoothing: float | None


class Command(RatchetCommand):
    help = "Train a LoRA adapter by direct preference optimisation (DPO) on what people preferred, and measure it."

    def add_options(self, parser: CommandParser) -> None:
        add_data_options(parser)
        add_pair_options(parser)
        add_training_options(parser)
        parser.add_argument("--beta", type=float, help="inverse temperature; larger stays nearer to the base model")
        parser.add_argument(
            "--loss-type", dest="preference_loss", metavar="LOSS[:WEIGHT],…", help=", ".join(PREFERENCE_LOSSES)
        )
        parser.add_argument("--label-smoothing", type=float, help=f"share of wrong pairs, for {', '.join(SMOOTHED)}")
        add_sweep_option(parser)
        add_run_options(parser)

    def run(self, **arguments: Any) -> None:
        options = read_options(Options, arguments)
        train_command(self, "dpo", options)
