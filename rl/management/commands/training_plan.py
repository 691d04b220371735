"""What each method could use."""

from dataclasses import asdict

from rich.table import Table

from rl.base.errors import UsageError
from rl.dataset_builder.first_row import METHOD
from rl.dataset_builder.options import DataOptions
from rl.dataset_builder.plan.plan import TrainingPlan, training_plan
from rl.lm import base_models
from rl.management.base import RatchetCommand
from rl.management.options import CommandOptions, option
from rl.management.tables import preview_lines
from rl.models import Agent
from rl.runs.preview import Preview, preview
from rl.runs.run import RunOptions
from rl.runs.settling import foresee

MOST_SHOWN = 100


class Options(CommandOptions):
    agent: str | None = option(help="default: every agent")
    show: int = option(
        default=0, help=f"that many rows of the advised method, or of {METHOD}, as the model would see them"
    )


class Command(RatchetCommand):
    help = "How many rows each training method could use today, what is missing for the next, and which one to take."

    def run(self, options: Options) -> None:
        if not 0 <= options.show <= MOST_SHOWN:
            raise UsageError(f"show must be from 0 to {MOST_SHOWN}")
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
        if options.show:
            for agent, plan, entry in zip(agents, plans, document, strict=True):
                learns = self._learns(agent, plan.advice.method or METHOD, options.show)
                entry["learns"] = asdict(learns)
                lines += preview_lines(str(agent), learns)
        self.result({"agents": document}, *map(_table, plans), lines=lines)

    def _learns(self, agent: Agent, method: str, count: int) -> Preview:
        """Raises UsageError where the base model's tokenizer cannot be used."""
        base_models.resolve(agent.base_model, self.report)  # which may have to be made or unpacked first
        options = RunOptions(data=DataOptions(pair_type=agent.pair_type, min_samples=1))
        return preview(agent, agent.training_config(method), options, method, count)


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
