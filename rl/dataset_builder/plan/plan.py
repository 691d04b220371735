"""How many rows each method could use, what is missing, and which method to take."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from rl.dataset_builder.plan.advice import REMARKS, Advice, MethodPlan, advise, plans
from rl.dataset_builder.plan.figures import Figures, figures
from rl.dataset_builder.plan.over_cap import apply_cap
from rl.dataset_builder.plan.shortage import plural
from rl.dataset_builder.taking import can_be_taken
from rl.models import Agent


@dataclass(frozen=True, slots=True)
class TrainingPlan:
    agent: str
    figures: Figures
    methods: list[MethodPlan]
    advice: Advice
    wording: str = ""
    """What would make it learn what it is asked; empty: nothing is known that would."""

    def as_dict(self) -> dict[str, Any]:
        methods = [{**asdict(plan), "ready": plan.ready} for plan in self.methods]
        return {
            "agent": self.agent,
            "figures": asdict(self.figures),
            "methods": methods,
            "advice": asdict(self.advice),
            "remarks": self.remarks,
            "wording": self.wording,
        }

    @property
    def remarks(self) -> dict[str, str]:
        """What the numbers that are not exact leave open."""
        used = {plan.how for plan in self.methods if plan.rows}
        return {how: remark for how, remark in REMARKS.items() if how in used}


def training_plan(agent: Agent) -> TrainingPlan:
    """Writes nothing and reads no rows: well under a second beside a million answers."""
    agent_figures = figures(agent)
    methods = plans(agent_figures, uses_direct=agent.pair_type == Agent.PairType.PREFERENCE, agent=agent.name)
    methods = apply_cap(agent, agent_figures, methods)
    return TrainingPlan(agent.name, agent_figures, methods, advise(agent_figures, methods), _wording(agent))


def _wording(agent: Agent) -> str:
    if recorded := can_be_taken(agent):
        take = f"'manage.py prompt_template take --agent {agent.name} --name NAME --use'"
        return (
            f"the gateway recorded {plural(recorded, 'prompt')}: {take} makes a template of one, to train what is asked"
        )
    return ""
