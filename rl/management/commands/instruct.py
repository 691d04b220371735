"""Tell an agent something with every question, without a training."""

import asyncio
from typing import Any

from rl.base.manner import PLACES
from rl.management.base import RatchetCommand, two_columns
from rl.management.options import CommandOptions, argument, option
from rl.models import Agent, Deployment
from rl.serving.heeded import DryRun, past_questions
from rl.serving.instructions import instruct
from rl.serving.promotion import promote

QUESTIONS = 30
"""That the place is tried on, as many as are answered in SECONDS."""
SECONDS = 60.0


class Options(CommandOptions):
    text: str = argument(help="what it is told, of at most 500 characters: 'Answer in one short sentence.'")
    agent: str = option(required=True)
    instruction_place: str = argument(
        "--place",
        choices=PLACES,
        default="",
        help="behind the last question, or in the system prompt; else it is tried",
    )
    use: bool = option(action="store_true", help="put it into use, too")


class Command(RatchetCommand):
    help = "Make a version of what is in use that is told something with every question, and serve it."

    def run(self, options: Options) -> None:
        agent = Agent.by_name(options.agent)
        tried = {} if options.instruction_place else self._try(agent, options.text)
        version = instruct(agent, options.text, options.instruction_place or tried["place"])
        if options.use:
            promote(agent, version, report=self.report)
        figures = {
            **tried,
            "version": version.name,
            "in use": options.use,
            "asked for as": f"{agent.name}@{version.name}",
        }
        self.result(figures, two_columns(f"{agent.name} {version.name}: {version.instruction}", figures))

    def _try(self, agent: Agent, text: str) -> dict[str, Any]:
        """The place where past questions say that it is heeded, and in how many of them."""
        questions = [row["question"] for row in past_questions(agent, Deployment.champion(agent), QUESTIONS)]
        dry_run = DryRun(agent, text, questions, SECONDS)
        self.report("stage", {"name": "trying where it is heeded"})
        asyncio.run(dry_run.work())
        outcome = dry_run.outcome
        return {
            "place": outcome.better,
            **{f"heeded, {name}": f"{count} of {outcome.of}" for name, count in outcome.heeded.items()},
            "surely heeded": outcome.is_sure,
        }
