"""Train on rewarded answers, and measure."""

from rl.management.options import option
from rl.management.training import TrainCommand
from rl.management.training_options import DataGroup, RolloutGroup, TrainOptions


class Options(TrainOptions, DataGroup, RolloutGroup):
    top_k: int | None = option(help="sample among so many of the likeliest tokens; 0: all")
    mini_batch_size: int | None = option(help="answers in one update")
    ppo_epochs: int | None = option(help="passes over each batch of answers")
    init_kl_coef: float | None = option(help="first weight of the divergence from the base model")
    target_kl: float | None = option(help="nats an answer that the weight steers to; 0: it stays")
    kl_horizon: int | None = option(help="answers over which the weight can change by 20 %%")
    missing_eos_penalty: float | None = option(help="off the reward of an answer that does not end")
    gamma: float | None = option(help="discount of later rewards")
    lam: float | None = option(help="of generalised advantage estimation")
    cliprange: float | None = option(help="how far a probability may move in one batch")
    cliprange_value: float | None = option(help="how far a value may move in one batch")
    vf_coef: float | None = option(help="weight of the value's loss")


class Command(TrainCommand):
    help = (
        "Train a LoRA adapter by proximal policy optimisation (PPO): answers are generated, rewarded and learned from."
    )
    method, title = "ppo", "PPO"
    options = Options
