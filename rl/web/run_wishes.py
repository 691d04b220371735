"""A run that a person or a program asks for, by a method of a short list and the agent's own settings."""

from typing import NamedTuple

from django.utils.translation import gettext_lazy

from rl.base.names import require_known
from rl.config import PRESETS, TrainingConfig
from rl.dataset_builder import DataOptions
from rl.models import Agent, TrainingRun
from rl.runs import run as runs
from rl.runs import supervisor
from rl.runs.effort import EffortPlan, choose_preset, plan_effort

METHOD_WORDS = {
    "mpo": gettext_lazy("all that waits: pairs, thumbs, stars, corrections"),
    "dpo": gettext_lazy("pairs of a better and a worse answer"),
    "kto": gettext_lazy("thumbs, up or down"),
    "grpo": gettext_lazy("groups of answers with their rewards"),
    "ppo": gettext_lazy("rewards of answers that it gives while it learns"),
    "reward_model": gettext_lazy("a model that scores answers, for other runs"),
}
"""What is chosen from, in this order; runs on tasks come from a file of the operator's (``train_agent``)."""


class RunWish(NamedTuple):
    agent: Agent
    method: str
    config: TrainingConfig
    options: runs.RunOptions
    effort: str = ""

    def plan(self) -> EffortPlan:
        """With what the effort comes to. Raises NotEnoughData as the run would, and UsageError."""
        return plan_effort(self.agent, self.config, self.options, self.method, self.effort)

    def start(self) -> TrainingRun:
        """Raises RunConflict where the agent has a run that is not over, UsageError, and with an effort NotEnoughData."""
        chosen = self.plan() if self.effort else self
        run = runs.create(self.agent, method_name=self.method, config=chosen.config, options=chosen.options)
        supervisor.enqueue(run)
        return run


def read_wish(agent: Agent, method: str = "", *, base_model: str = "", preset: str = "", effort: str = "") -> RunWish:
    """As the admin's button makes a run, with what was chosen. Raises UsageError."""
    method = method or next(iter(METHOD_WORDS))
    require_known("training method", method, METHOD_WORDS)
    if preset:
        require_known("preset", preset, PRESETS)
    chosen = choose_preset(agent, method, base_model=base_model, preset=preset, effort=effort)
    options = runs.RunOptions(
        data=DataOptions(pair_type=agent.pair_type, min_samples=1),
        export=agent.auto_export,
        quantization=agent.export_quantization,
        deploy=agent.deploy_target if agent.auto_deploy else "",
    )
    return RunWish(agent, method, chosen.config, chosen.apply_to(options), effort)
