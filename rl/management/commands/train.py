"""Train by any method, and measure."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser

from rl.base.errors import UsageError
from rl.config import METHODS
from rl.management.base import RatchetCommand
from rl.management.training import add_data_options, add_run_options, add_training_options, train_command


class Command(RatchetCommand):
    help = "Train by any method, with the options that all have, and measure."

    def add_options(self, parser: CommandParser) -> None:
        parser.add_argument("method", nargs="?", choices=_methods(), help="how to train")
        add_data_options(parser)
        add_training_options(parser)
        add_run_options(parser)

    def run(self, **options: Any) -> None:
        if not options["method"]:
            raise UsageError(f"name a method: {', '.join(_methods())}")
        train_command(self, options["method"], options)


def _methods() -> list[str]:
    """Tasks come from a file of their own: train_agent."""
    return [name for name, method in METHODS.items() if not method.rows.of_tasks]
