"""Hyper-parameters under N3's names, and as Ratchet's. They may be changed after they were made, as its guide does."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Final

from rl.config import TrainingConfig as CoreConfig
from rl.config import config_class

_OTHER_NAMES: Final[Mapping[str, str]] = {
    "gradient_accumulation_steps": "gradient_accumulation",
    "num_epochs": "epochs",
}
"""N3's name to ours, where they differ."""


@dataclass
class DatasetConfig:
    max_length: int = 512
    """Tokens of prompt and answer, for the reward model."""
    max_prompt_length: int = 256
    """Tokens; longer prompts are left out, not cut."""
    train_split: float = 0.8
    normalize_scores: bool = True
    """Without effect: a score is learned as it is, 0 to 1."""


@dataclass
class _LoraConfig:
    base_model: str = "gpt2"
    use_lora: bool = True
    lora_r: int = 8
    lora_alpha: int = 32
    lora_dropout: float = 0.1
    learning_rate: float = 1e-5
    batch_size: int = 8

    def _to_core(self, method: str, **values: Any) -> CoreConfig:
        """What the method has too, and ``values`` in place of some. Raises UsageError for an impossible one."""
        core = config_class(method)()
        own = {_OTHER_NAMES.get(entry.name, entry.name): getattr(self, entry.name) for entry in fields(self)}
        known = {entry.name: own[entry.name] for entry in fields(core) if entry.name in own}
        return core.with_overrides({**known, "full": not self.use_lora, **values})


@dataclass
class RewardModelConfig(_LoraConfig):
    num_epochs: int = 3
    warmup_steps: int = 100
    """At most; and at most a tenth of the steps."""
    max_grad_norm: float = 1.0
    max_length: int = 512
    device: str = ""
    """Without effect: the GPU where there is one."""

    def to_core(self) -> CoreConfig:
        """Raises UsageError for an impossible value."""
        return self._to_core("reward_model", gradient_accumulation=1)


@dataclass
class TrainingConfig(_LoraConfig):
    mini_batch_size: int = 4
    """At most a batch."""
    gradient_accumulation_steps: int = 1
    ppo_epochs: int = 4
    max_grad_norm: float = 1.0
    init_kl_coef: float = 0.2
    target_kl: float = 6.0
    gamma: float = 1.0
    lam: float = 0.95
    cliprange: float = 0.2
    cliprange_value: float = 0.2
    vf_coef: float = 0.1
    max_new_tokens: int = 128
    temperature: float = 1.0
    top_k: int = 50
    top_p: float = 0.95
    dataset: DatasetConfig = field(default_factory=DatasetConfig)
    max_steps: int = 1000
    """Batches at most; one pass over the prompts ends the training before."""
    train_reward_model_first: bool = True
    reward_model_config: RewardModelConfig = None  # type: ignore[assignment]  # made from the rest where left out
    device: str = ""
    """Without effect, as ``mixed_precision``: the machine decides both."""
    mixed_precision: str = ""

    def __post_init__(self) -> None:
        if self.reward_model_config is None:
            same = ("base_model", "use_lora", "lora_r", "lora_alpha", "lora_dropout", "device")
            self.reward_model_config = RewardModelConfig(
                **{name: getattr(self, name) for name in same}, max_length=self.dataset.max_length
            )

    def to_core(self) -> CoreConfig:
        """PPO over each prompt once. Raises UsageError for an impossible value."""
        length = self.dataset.max_prompt_length + self.max_new_tokens
        small = min(self.mini_batch_size, self.batch_size)
        return self._to_core("ppo", epochs=1.0, mini_batch_size=small, max_length=length)
