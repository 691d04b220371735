"""Make and list agents."""

from pathlib import Path

from django.conf import settings
from django.db.models import Count
from rich.table import Table

from rl import registered
from rl.base.errors import UsageError
from rl.base.names import require_known
from rl.config.embedded_models import EMBEDDED_MODELS
from rl.lm import base_models
from rl.management.base import ActionsCommand
from rl.management.options import CommandOptions, argument, option
from rl.models import Agent
from rl.serving.deploy import Destination
from rl.serving.hosted import let_answer, require_model


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
    later: bool = option(
        action="store_true", help="fetch the base model when it is needed first, and ask the server nothing"
    )
    url: str = argument(
        "--from",
        default="",
        metavar="URL",
        help="another server with OpenAI's API, which answers until a version of the agent's own is put into use",
    )
    model_name: str = option(default="", help="with --from: as that server calls its model")
    api_key_env: str = option(default="", help="with --from: the environment variable that holds its key")


class Command(ActionsCommand):
    help = "Make an agent with its base model, and list the agents."
    actions = {"create": "make an agent, and fetch its base model where that is not here", "list": "all agents by name"}

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
        hosted = _read_destination(options)
        name = agent.base_model
        remark = require_model(hosted) if hosted and not options.later else ""
        folder = base_models.loaded_name(name) if options.later else base_models.resolve(name, self.report)
        document = {"name": agent.name, "base_model": agent.base_model, "loaded_from": folder}
        lines = [f"Agent {agent} starts from {agent.base_model} ({folder})."]
        if hosted:
            let_answer(agent, hosted, report=self.report)
            document |= {"answered_by": hosted.model_name, "url": hosted.base_url, "remark": remark}
            lines.append(f"{hosted.model_name} at {hosted.base_url} answers until you put a version into use.")
            lines += [f"But {remark}."] if remark else []
        else:
            agent.save()
        self.result(document, lines=lines)

    def _list(self) -> None:
        agents = list(Agent.objects.annotate(traces_count=Count("traces", distinct=True)))
        table = Table("agent", "base model", "traces", "online learning")
        for agent in agents:
            learns = "yes" if agent.online_learning else "no"
            table.add_row(agent.name, agent.base_model, f"{agent.traces_count:,}", learns)
        names = ("name", "base_model", "traces_count", "online_learning")
        rows = [{name.removesuffix("_count"): getattr(agent, name) for name in names} for agent in agents]
        self.result({"agents": rows}, table)


def _read_destination(options: CreateAgentOptions) -> Destination | None:
    """Raises UsageError."""
    if options.url:
        return Destination("openai", options.model_name, options.url, options.api_key_env)
    if options.model_name or options.api_key_env:
        raise UsageError("--model-name and --api-key-env belong to --from; the agent's own model is --model")
    return None


def _find_model(name: str) -> str:
    """What the agent's base model is called. Raises UsageError for a bare word that names none: the hub has a few
    such models, and a misspelt name would be looked for among them."""
    known = registered.choices_of("base_model")
    if "/" not in name and not Path(name).exists():
        require_known("base model", name, known, "owner/name on the hub, a folder, or a GGUF file")
    return str(known.get(name, name))
