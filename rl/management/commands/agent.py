"""Make and list agents."""

from pathlib import Path

from django.conf import settings
from django.db.models import Count
from rich.table import Table

from rl import registered
from rl.base.names import require_known
from rl.config.embedded_models import EMBEDDED_MODELS
from rl.lm import base_models
from rl.management.base import ActionsCommand
from rl.management.options import CommandOptions, argument, option
from rl.models import Agent


class CreateAgentOptions(CommandOptions):
    name: str = argument(help="letters, digits, '.', '_' and '-'")
    model: str | None = option(
        help=f"{', '.join(EMBEDDED_MODELS)}, a name of BASE_MODELS, a hub id (with @revision: that one), a folder, or a "
        f"GGUF file ({settings.DEFAULT_BASE_MODEL})"
    )
    description: str = option(default="", help="what it is for")
    system_prompt: str = option(default="", help="what stands before every conversation")
    response_length: int | None = option(help="most tokens of one answer")
    thinks: bool = option(action="store_true", help="it thinks before it answers, where its model can")
    later: bool = option(action="store_true", help="fetch the base model when it is needed first")


class Command(ActionsCommand):
    help = "Make an agent with its base model, and list the agents."
    actions = {
        "create": "make an agent, and fetch its base model where that is not here",
        "list": "all agents by name",
    }

    def _create(self, options: CreateAgentOptions) -> None:
        """The model first: an agent whose model cannot be had is not made."""
        agent = Agent.new(
            options.name,
            base_model=_find_model(options.model or settings.DEFAULT_BASE_MODEL),
            description=options.description,
            system_prompt=options.system_prompt,
            thinks=options.thinks,
        )
        if options.response_length is not None:
            agent.response_length = options.response_length
        agent.full_clean()
        name = agent.base_model
        folder = base_models.loaded_name(name) if options.later else base_models.resolve(name, self.report)
        agent.save()
        document = {"name": agent.name, "base_model": agent.base_model, "loaded_from": folder}
        self.result(document, lines=(f"Agent {agent} starts from {agent.base_model} ({folder}).",))

    def _list(self) -> None:
        agents = list(Agent.objects.annotate(traces_count=Count("traces", distinct=True)))
        table = Table("agent", "base model", "traces", "online learning")
        for agent in agents:
            learns = "yes" if agent.online_learning else "no"
            table.add_row(agent.name, agent.base_model, f"{agent.traces_count:,}", learns)
        names = ("name", "base_model", "traces_count", "online_learning")
        rows = [{name.removesuffix("_count"): getattr(agent, name) for name in names} for agent in agents]
        self.result({"agents": rows}, table)


def _find_model(name: str) -> str:
    """What the agent's base model is called. Raises UsageError for a bare word that names none: the hub has a few
    such models, and a misspelt name would be looked for among them."""
    known = registered.choices_of("base_model")
    if "/" not in name and not Path(name).exists():
        require_known("base model", name, known, "owner/name on the hub, a folder, or a GGUF file")
    return str(known.get(name, name))
