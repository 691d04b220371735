"""What each method could use."""

from __future__ import annotations

from dataclasses import dataclass

from rich.table import Table

from rl.base.errors import UsageError
from rl.dataset_builder.plan.plan import TrainingPlan, training_plan
from rl.management.base import RatchetCommand
from rl.management.options import option
from rl.models import Agent
from rl.runs.settling import foresee


@dataclass(frozen=True, slots=True)
class Options:
    agent: str | None = option(help="default: every agent")


class Command(RatchetCommand):
    help = "How many rows each training method could use today, what is missing for the next, and which one to take."
    options = Options

    def run(self, options: Options) -> None:
        agents = [Agent.by_name(options.agent)] if options.agent else list(Agent.objects.all())
        if not agents:
            raise UsageError("there are no agents yet; import_traces or the admin makes one")
        plans = [training_plan(agent) for agent in agents]
        for agent in agents:
            agent.note_plan_seen()
        chosen = [foresee(agent, plan) for agent, plan in zip(agents, plans, strict=True)]
        remarks = {how: text for plan in plans for how, text in plan.remarks.items()}
        lines = [line for plan, numbers in zip(plans, chosen, strict=True) for line in _lines(plan, numbers)]
        lines += [f"{how}: {text}" for how, text in remarks.items()]
        document = [{**plan.as_dict(), "chosen": numbers} for plan, numbers in zip(plans, chosen, strict=True)]
        self.result({"agents": document}, *map(_table, plans), lines=lines)


def _table(plan: TrainingPlan) -> Table:
    table = Table("method", "rows", "made of", "missing", title=plan.agent, title_justify="left")
    for method in plan.methods:
        how = f"{method.how} " if method.rows else ""
        table.add_row(method.method, f"{how}{method.rows:,}", method.made_of, method.missing or "-")
    return table


def _lines(plan: TrainingPlan, chosen: str) -> list[str]:
    """``chosen``: the numbers that a run would choose; empty: none."""
    method = f"train with {plan.advice.method}: " if plan.advice.method else ""
    sentences = [f"{method}{plan.advice.reason}", *plan.accepted.sentences, chosen, plan.wording]
    return [f"{plan.agent}: {line}" for line in sentences if line]
