"""Hyper-parameters of PPO, the method with the most of its own."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, Self

from rl.base.errors import UsageError
from rl.config.base import TrainingConfig
from rl.config.fields import within


@dataclass(frozen=True, slots=True, kw_only=True)
class PPOConfig(TrainingConfig):
    """Proximal policy optimisation of a language model (Schulman et al., 2017; Ziegler et al., 2019)."""

    LISTS: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "automatic": (*TrainingConfig.LISTS["automatic"], "mini_batch_size", "ppo_epochs", "lam", "init_kl_coef")
    }
    OF_PRESETS: ClassVar[Mapping[str, str]] = {"batch_size": "mini_batch_size", "gradient_accumulation": ""}

    batch_size: int = 8
    """Answers that are generated and rewarded before the policy is updated."""
    mini_batch_size: int = within(1, 1024, 4)
    """Answers in one update."""
    gradient_accumulation: int = 1
    """Forward passes that an update is cut into."""
    learning_rate: float = 1e-5
    init_kl_coef: float = within(0, 100, 0.2)
    """First weight of the KL penalty; it adapts to keep the divergence near ``target_kl``."""
    target_kl: float = within(0, 1000, 6.0)
    """Nats an answer; 0: the weight stays as it is."""
    kl_horizon: float = within(1, 10_000_000, 10_000)
    """Answers over which the weight can change by 20 %."""
    missing_eos_penalty: float = within(0, 10, 0.0)
    """Taken off the reward of an answer that does not end within ``max_new_tokens``."""
    gamma: float = within(0, 1, 1.0)
    lam: float = within(0, 1, 0.95)
    """Lambda of generalised advantage estimation, 0 to 1."""
    cliprange: float = within(0, 10, 0.2)
    cliprange_value: float = within(0, 10, 0.2)
    vf_coef: float = within(0, 100, 0.1)
    ppo_epochs: int = within(1, 100, 4)
    """Passes over each batch."""
    max_steps: int = within(1, 10_000_000, 1000)
    """Most batches; ``epochs`` may end the training before."""
    max_new_tokens: int = within(1, 100_000, 128)
    temperature: float = within(0.01, 10, 1.0)
    top_k: int = within(0, 1_000_000, 50)
    """0: all tokens."""
    top_p: float = within(0.01, 1, 0.95)

    def __post_init__(self) -> None:
        TrainingConfig.__post_init__(self)
        if self.mini_batch_size > self.batch_size:
            raise UsageError(
                f"mini_batch_size is a part of batch_size, {self.mini_batch_size} cannot be more than {self.batch_size}"
            )

    @property
    def rows_a_pass(self) -> int:
        return math.ceil(self.mini_batch_size / self.gradient_accumulation)

    @property
    def rows_a_step(self) -> int:
        return int(self.batch_size)

    def steps(self, rows: int) -> int:
        return min(int(self.max_steps), math.ceil(self.epochs * rows / self.batch_size))

    def with_smaller_passes(self, least_rows: int = 1) -> Self | None:
        """An update's mini-batch is what is cut into passes here."""
        if self.rows_a_pass // 2 < least_rows:
            return None
        return replace(self, gradient_accumulation=int(self.gradient_accumulation) * 2)
