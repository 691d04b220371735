"""DatasetPipeline."""

from __future__ import annotations

from typing import Any

from rl.dataset_builder.frozen.freezing import freeze
from rl.dataset_builder.options import DataOptions
from rl.dataset_builder.plan.plan import TrainingPlan, training_plan
from rl.models import Agent, TrainingSet


class DatasetPipeline:
    """An agent's feedback and rewards as frozen training sets, one kind of rows for each method.

    Keyword arguments are those of DataOptions: ``min_samples``, ``val_split``, ``min_confidence``, and for pairs
    ``pair_type`` and ``max_pairs_per_question``. All raise NotEnoughData and UsageError.
    """

    def __init__(self, agent: Agent | str) -> None:
        self.agent = agent if isinstance(agent, Agent) else Agent.by_name(agent)

    def build_dpo_dataset(self, **options: Any) -> TrainingSet:
        """Rows ``{prompt, chosen, rejected}``."""
        return self._freeze("dpo", options)

    def build_kto_dataset(self, **options: Any) -> TrainingSet:
        """Rows ``{prompt, completion, label}``."""
        return self._freeze("kto", options)

    def build_grpo_dataset(self, **options: Any) -> TrainingSet:
        """Rows ``{prompt, completions, rewards}``."""
        return self._freeze("grpo", options)

    def build_reward_dataset(self, **options: Any) -> TrainingSet:
        """Rows ``{prompt, completion, reward}``."""
        return self._freeze("reward", options)

    def plan(self) -> TrainingPlan:
        """How many rows each method could use now."""
        return training_plan(self.agent)

    def _freeze(self, method: str, options: dict[str, Any]) -> TrainingSet:
        return freeze(self.agent, DataOptions(**{"pair_type": self.agent.pair_type, **options}), method=method)
