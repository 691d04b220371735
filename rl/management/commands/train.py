"""Train by any method, and measure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.core.management.base import CommandParser

from rl.base.errors import UsageError
from rl.config import METHODS
from rl.management.base import RatchetCommand
from rl.management.options import read_options
from rl.management.training import train_command
from rl.management.training_options import (
    DataGroup,
    TrainOptions,
    add_data_options,
    add_run_options,
    add_training_options,
)


@dataclass(frozen=True, kw_only=True)
class Options(TrainOptions, DataGroup):
    method: str | None


class Command(RatchetCommand):
    help = "Train by any method, with the options that all have, and measure."

    def add_options(self, parser: CommandParser) -> None:
        parser.add_argument("method", nargs="?", choices=_methods(), help="how to train")
        add_data_options(parser)
        add_training_options(parser)
        add_run_options(parser)

    def run(self, **arguments: Any) -> None:
        options = read_options(Options, arguments)
        if not options.method:
            raise UsageError(f"name a method: {', '.join(_methods())}")
        train_command(self, options.method, options)


def _methods() -> list[str]:
    """Tasks come from a file of their own: train_agent."""
    return [name for name, method in METHODS.items() if not method.rows.of_tasks]
