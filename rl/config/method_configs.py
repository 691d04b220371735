"""Hyper-parameters of single methods, beside those that all have."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

from rl.base.errors import UsageError
from rl.base.manner import Manner
from rl.base.names import unknown_name
from rl.config.base import TrainingConfig
from rl.config.fields import within

PREFERENCE_LOSSES = (
    *("sigmoid", "hinge", "ipo", "exo_pair", "nca_pair", "robust", "bco_pair", "sppo_hard", "aot", "aot_unpaired"),
    *("apo_zero", "apo_down", "discopop", "sft", "sigmoid_norm"),
)
"""Losses of TRL's DPOTrainer."""
SMOOTHED = ("robust", "exo_pair", "aot", "aot_unpaired")
"""Those that read ``label_smoothing``."""
SORTED = ("aot", "aot_unpaired")
"""Those that sort the pairs of a forward pass, and mean something else where there is one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DPOConfig(TrainingConfig):
    """Direct preference optimisation, by one loss or several (Rafailov et al., 2023)."""

    LISTS: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "automatic": (*TrainingConfig.LISTS["automatic"], "label_smoothing"),
        "preference_loss": PREFERENCE_LOSSES,
    }

    automatic: tuple[str, ...] = ("label_smoothing",)
    preference_loss: str = "sigmoid"
    """One loss, or several with weights and commas between: ``sigmoid:1,sft:0.2``; a weight that is left out is 1."""
    label_smoothing: float = within(0, 0.49, 0.0)
    """Probability that a pair is the wrong way round, 0 to 0.49, for the losses that allow for it."""

    def __post_init__(self) -> None:
        TrainingConfig.__post_init__(self)
        losses = self.losses
        if self.label_smoothing and not losses.keys() & set(SMOOTHED):
            raise UsageError(
                f"label_smoothing has no effect with {self.preference_loss}: only {', '.join(SMOOTHED)} read it"
            )
        if "exo_pair" in losses and not self.smoothing:
            raise UsageError("exo_pair takes the logarithm of label_smoothing, which must be above 0: 0.001 is usual")
        if self.batch_size == 1 and (sorting := losses.keys() & set(SORTED)):
            raise UsageError(f"{min(sorting)} sorts the pairs of a forward pass: batch_size must be at least 2")

    @property
    def losses(self) -> dict[str, float]:
        """Loss to weight. Raises UsageError."""
        losses: dict[str, float] = {}
        for part in str(self.preference_loss).split(","):
            name, _, weight = (word.strip() for word in part.partition(":"))
            if name not in PREFERENCE_LOSSES:
                raise UsageError(f"preference_loss: {unknown_name('loss', name, PREFERENCE_LOSSES)}")
            if name in losses:
                raise UsageError(f"preference_loss: {name} is there twice")
            losses[name] = _weight(name, weight or "1")
        return losses

    @property
    def smoothing(self) -> float:
        """``label_smoothing``; while that is not chosen yet, what the losses' authors use."""
        return self.usual_smoothing if "label_smoothing" in self.automatic else self.label_smoothing

    @property
    def usual_smoothing(self) -> float:
        return next((value for name, value in _USUAL_SMOOTHING.items() if name in self.losses), 0.0)

    def with_smaller_passes(self, least_rows: int = 1) -> Self | None:
        least = 2 if self.losses.keys() & set(SORTED) else 1
        return TrainingConfig.with_smaller_passes(self, max(least, least_rows))


_USUAL_SMOOTHING = {"robust": 0.1, "exo_pair": 0.001}


def _weight(name: str, text: str) -> float:
    try:
        weight = float(text)
    except ValueError:
        weight = 0.0
    if not 0 < weight <= 100:
        raise UsageError(f"preference_loss: the weight of {name} must be a number above 0, at most 100, not {text!r}")
    return weight


@dataclass(frozen=True, slots=True, kw_only=True)
class ImitationConfig(TrainingConfig):
    """Imitation of accepted answers."""

    balance_classes: bool = True
    """Whether rows with a rare answer of a closed set are learned several times in a pass, at most four."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SFTConfig(ImitationConfig):
    """Imitation and nothing else."""

    bake_in: bool = False
    """Whether the run imitates what the version in use answers under the instruction, instead of accepted answers, so that
    the new version is told nothing."""

    def __post_init__(self) -> None:
        TrainingConfig.__post_init__(self)
        if self.bake_in and not self.instruction:
            raise UsageError(
                "bake_in: the version in use is told nothing that could be baked in; see manage.py instruct"
            )
        if self.bake_in and self.thinks:
            raise UsageError("bake_in: what is baked in are answers without thoughts, and the model is to think first")

    @property
    def manner(self) -> Manner:
        return Manner(self.thinks) if self.bake_in else Manner(self.thinks, self.instruction, self.instruction_place)


@dataclass(frozen=True, slots=True, kw_only=True)
class MPOConfig(ImitationConfig):
    """Mixed preference optimisation (after Wang et al., 2024)."""

    LISTS: ClassVar[Mapping[str, tuple[str, ...]]] = {"automatic": (*TrainingConfig.LISTS["automatic"], "preferences")}

    preferences: bool = True
    """Whether preferences are trained; else the accepted answers are imitated and nothing more, which teaches answers that
    are right or wrong. The preset auto chooses by what the answers are."""
    sft_weight: float = within(0, 10, 0.5)
    """Weight of imitating chosen answers, beside preferring them."""
    fresh_answers: int = within(0, 16, 0)
    """Answers of the base model to each prompt that a judge ranks for a further pair; 0: none."""
    weigh_raters: bool = True
    """Whether raters who say the opposite of what the others' ratings lead to expect weigh less."""
    MOST_FRESH: ClassVar[int] = 100
    """Prompts that it is asked."""

    def rows_learned(self, rows: int) -> int:
        return rows + (min(rows, self.MOST_FRESH) if self.fresh_answers else 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class GRPOConfig(TrainingConfig):
    """Group relative policy optimisation (Shao et al., 2024)."""

    CHOICES: ClassVar[Mapping[str, tuple[str, ...]]] = {
        **TrainingConfig.CHOICES,
        "rollouts": ("online", "offline"),
        "loss_type": ("grpo", "dr_grpo", "bnpo", "dapo", "cispo"),
    }
    MOST_KL: ClassVar[float] = 100.0
    """Here the mean over tokens of TRL's estimate, exp(d) - d - 1 for a difference of d nats: 0.01 to 1 in a run that
    learns. A hundred means that tokens became e^5 times likelier or less likely throughout."""

    epochs: float = 1.0
    learning_rate: float = 1e-5
    beta: float = 0.04
    """Weight of the KL divergence from the base model."""
    rollouts: str = "online"
    """online: answers are generated and rewarded while training; offline: the rewarded answers that are stored."""
    num_generations: int = within(2, 64, 8)
    """Answers to a prompt, compared with each other."""
    temperature: float = within(0.01, 10, 1.0)
    top_p: float = within(0.01, 1, 1.0)
    max_new_tokens: int = within(1, 100_000, 256)
    """Most tokens of one answer."""
    loss_type: str = "dapo"
    """How a token's loss is averaged; see TRL's GRPOConfig."""
    vllm: bool = False
    """Answers are generated by vLLM on the GPU that trains."""
    vllm_server: str = ""
    """Answers are generated by the vLLM server at this address."""

    def __post_init__(self) -> None:
        TrainingConfig.__post_init__(self)
        if self.vllm_server and not str(self.vllm_server).startswith(("http://", "https://")):
            raise UsageError(f"vllm_server must be an address such as http://localhost:8000, not {self.vllm_server!r}")
        if self.vllm and self.vllm_server:
            raise UsageError("vllm and vllm_server are two ways to generate answers: choose one")

    def steps(self, rows: int) -> int:
        """``rows``: prompts. A step holds whole groups."""
        groups = math.ceil(self.rows_a_step / self.num_generations)
        of_epochs = math.ceil(self.epochs * math.ceil(rows / groups))
        return int(self.max_steps) if self.max_steps and rows else of_epochs


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentConfig(GRPOConfig):
    """GRPO of whole episodes: the agent calls tools for some turns, and the environment rewards it."""

    CHOICES: ClassVar[Mapping[str, tuple[str, ...]]] = {
        **GRPOConfig.CHOICES,
        "rollouts": ("online",),
        "policy_type": ("auto", "template", "plain", "minimind"),
    }
    PATTERNS: ClassVar[Mapping[str, str]] = {"device": r"auto|cpu|mps|cuda(:\d{1,3})?"}

    max_length: int = 2048
    """Tokens of a whole episode: prompt, turns and observations."""
    max_new_tokens: int = 256
    """Most tokens of one turn."""
    environment: Mapping[str, Any] = field(default_factory=dict)
    """The fields of EnvironmentSettings."""
    policy_type: str = "auto"
    """How chats with tools are written. template: by the model's own chat template; plain: ``<tool_call>`` in its text;
    minimind: plain, for MiniMind's checkpoints; auto: the template where it knows tools, else plain."""
    async_rollout_workers: int = within(0, 64, 0)
    """Processes in which environments run at the same time; 0: one after the other in the training process."""
    eval_interval: int = within(0, 1_000_000, 50)
    """Optimiser steps between two measurements on held-out tasks; 0: none."""
    eval_tasks: int = within(1, 100_000, 64)
    """Held-out tasks of one measurement, always the first."""
    curriculum: bool = False
    """The tasks come by how often they were solved: the hardest that still teach first."""
    device: str = "auto"


@dataclass(frozen=True, slots=True, kw_only=True)
class RewardModelConfig(TrainingConfig):
    """A model that gives an answer a number (Bradley and Terry, 1952)."""

    epochs: float = 2.0
    learning_rate: float = 1e-4
    center_rewards: float = within(0, 10, 0.01)
    """Weight of the squared sum of a pair's numbers, which keeps them around 0 (Eisenstein et al., 2023)."""
