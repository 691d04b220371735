"""Train on rewards of answers, and measure."""

from rl.config import GRPOConfig
from rl.management.options import option
from rl.management.training import TrainCommand
from rl.management.training_options import DataGroup, RolloutGroup, TrainOptions, VllmGroup


class Options(TrainOptions, DataGroup, RolloutGroup, VllmGroup):
    rollouts: str | None = option(choices=GRPOConfig.CHOICES["rollouts"], help="generate answers, or use stored")
    num_generations: int | None = option(help="answers to a prompt, compared with each other")
    loss_type: str | None = option(choices=GRPOConfig.CHOICES["loss_type"], help="how tokens are averaged")
    beta: float | None = option(help="weight of the divergence from the base model")


class Command(TrainCommand):
    help = "Train a LoRA adapter by group relative policy optimisation (GRPO): answers compete for rewards."
    method = "grpo"
    options = Options
