"""Train on pairs to score answers."""

from rl.management.options import option
from rl.management.training import TrainCommand
from rl.management.training_options import DataGroup, PairGroup, TrainOptions


class Options(TrainOptions, DataGroup, PairGroup):
    center_rewards: float | None = option(help="how strongly its numbers are held around 0")


class Command(TrainCommand):
    help = "Train a reward model, which scores answers as people would, and measure how right and how sure it is."
    method = "reward_model"
    options = Options
