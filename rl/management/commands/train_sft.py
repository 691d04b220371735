"""Train on the answers that people accept, and measure."""

from rl.management.options import option
from rl.management.training import TrainCommand
from rl.management.training_options import DataGroup, PairGroup, SweepGroup, TrainOptions


class Options(TrainOptions, DataGroup, PairGroup, SweepGroup):
    bake_in: bool | None = option(
        action="store_const",
        const=True,
        help="learn what the version in use answers under its instruction, so that it need not be told",
    )


class Command(TrainCommand):
    help = (
        "Train a LoRA adapter by supervised fine-tuning (SFT) on the answers that people chose, edited or liked, and "
        "measure it. It suits answers that are right or wrong: a class, a form to fill, a tool call."
    )
    method = "sft"
    options = Options
