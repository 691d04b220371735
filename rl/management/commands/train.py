"""Train by any method, and measure."""

from rl.base.errors import UsageError
from rl.management.options import argument
from rl.management.training import TrainCommand, train_command
from rl.management.training_options import DataGroup, TrainOptions, methods_of_rows


class Options(TrainOptions, DataGroup):
    method: str | None = argument(nargs="?", choices=methods_of_rows, help="how to train")


class Command(TrainCommand):
    help = "Train by any method, with the options that all have, and measure."
    options = Options

    def run(self, options: Options) -> None:  # type: ignore[override]
        if not options.method:
            raise UsageError(f"name a method: {', '.join(methods_of_rows())}")
        train_command(self, options.method, options)
