"""Train on labelled answers, and measure."""

from rl.management.options import option
from rl.management.training import TrainCommand
from rl.management.training_options import DataGroup, SweepGroup, TrainOptions


class Options(TrainOptions, DataGroup, SweepGroup):
    beta: float | None = option(help="inverse temperature; larger stays nearer to the base model")


class Command(TrainCommand):
    help = "Train a LoRA adapter by Kahneman-Tversky optimisation (KTO) on single good and bad answers, and measure it."
    method = "kto"
    options = Options
