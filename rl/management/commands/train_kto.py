"""Train on labelled answers, and measure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.core.management.base import CommandParser

from rl.management.base import RatchetCommand
from rl.management.options import read_options
from rl.management.sweep_option import SweepGroup, add_sweep_option
from rl.management.training import train_command
from rl.management.training_options import (
    DataGroup,
    TrainOptions,
    add_data_options,
    add_run_options,
    add_training_options,
)


@dataclass(frozen=True, kw_only=True)
class Options(TrainOptions, DataGroup, SweepGroup):
    beta: float | None


class Command(RatchetCommand):
    help = "Train a LoRA adapter by Kahneman-Tversky optimisation (KTO) on single good and bad answers, and measure it."

    def add_options(self, parser: CommandParser) -> None:
        add_data_options(parser)
        add_training_options(parser)
        parser.add_argument("--beta", type=float, help="inverse temperature; larger stays nearer to the base model")
        add_sweep_option(parser)
        add_run_options(parser)

    def run(self, **arguments: Any) -> None:
        options = read_options(Options, arguments)
        train_command(self, "kto", options)
