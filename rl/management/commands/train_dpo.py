"""Train on pairs, and measure."""

from rl.config.method_configs import PREFERENCE_LOSSES, SMOOTHED
from rl.management.options import argument, option
from rl.management.training import TrainCommand
from rl.management.training_options import DataGroup, PairGroup, SweepGroup, TrainOptions


class Options(TrainOptions, DataGroup, PairGroup, SweepGroup):
    beta: float | None = option(help="inverse temperature; larger stays nearer to the base model")
    preference_loss: str | None = argument("--loss-type", metavar="LOSS[:WEIGHT],…", help=", ".join(PREFERENCE_LOSSES))
    label_smoothing: float | None = option(help=f"share of wrong pairs, for {', '.join(SMOOTHED)}")


class Command(TrainCommand):
    help = "Train a LoRA adapter by direct preference optimisation (DPO) on what people preferred, and measure it."
    method = "dpo"
    options = Options
