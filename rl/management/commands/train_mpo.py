"""Train on everything that people and rewards said of answers, and measure."""

from __future__ import annotations

from argparse import BooleanOptionalAction
from dataclasses import dataclass
from typing import Any

from django.core.management.base import CommandParser

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
    sft_weight: float | None
    fresh_answers: int | None
    weigh_raters: bool | None


class Command(RatchetCommand):
    help = (
        "Train a LoRA adapter by mixed preference optimisation (MPO) on every kind of rating at once: pairs, single good "
        "and bad answers, scores and edited answers; and measure it."
    )

    def add_options(self, parser: CommandParser) -> None:
        add_data_options(parser)
        add_pair_options(parser)
        add_training_options(parser)
        add_sweep_option(parser)
        parser.add_argument("--beta", type=float, help="inverse temperature; larger stays nearer to the base model")
        parser.add_argument("--sft-weight", type=float, help="weight of imitating chosen answers (0.5)")
        parser.add_argument(
            "--fresh-answers",
            type=int,
            metavar="N",
            help="besides, a pair for each prompt out of N answers of the base model that a judge ranks (0)",
        )
        parser.add_argument(
            "--weigh-raters",
            action=BooleanOptionalAction,
            help="raters who say the opposite of what the others' ratings lead to expect weigh less (yes)",
        )
        add_run_options(parser)

    def run(self, **arguments: Any) -> None:
        options = read_options(Options, arguments)
        train_command(self, "mpo", options)
