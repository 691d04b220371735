"""Train on everything that people and rewards said of answers, and measure."""

from argparse import BooleanOptionalAction

from rl.management.options import option
from rl.management.training import TrainCommand
from rl.management.training_options import DataGroup, PairGroup, SweepGroup, TrainOptions


class Options(TrainOptions, DataGroup, PairGroup, SweepGroup):
    beta: float | None = option(help="inverse temperature; larger stays nearer to the base model")
    sft_weight: float | None = option(help="weight of imitating chosen answers (0.5)")
    fresh_answers: int | None = option(
        metavar="N", help="besides, a pair for each prompt out of N answers of the base model that a judge ranks (0)"
    )
    weigh_raters: bool | None = option(
        action=BooleanOptionalAction,
        help="raters who say the opposite of what the others' ratings lead to expect weigh less (yes)",
    )


class Command(TrainCommand):
    help = (
        "Train a LoRA adapter by mixed preference optimisation (MPO) on every kind of rating at once: pairs, single good "
        "and bad answers, scores and edited answers; and measure it."
    )
    method = "mpo"
    options = Options
