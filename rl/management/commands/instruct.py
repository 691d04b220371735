"""Tell an agent something with every question, without a training."""

from rl.base.manner import PLACES, QUESTION
from rl.management.base import RatchetCommand, two_columns
from rl.management.options import CommandOptions, argument, option
from rl.models import Agent
from rl.serving.instructions import instruct
from rl.serving.promotion import promote


class Options(CommandOptions):
    text: str = argument(help="what it is told, of at most 500 characters: 'Answer in one short sentence.'")
    agent: str = option(required=True)
    instruction_place: str = argument(
        "--place", choices=PLACES, default=QUESTION, help="behind the last question, or in the system prompt"
    )
    use: bool = option(action="store_true", help="put it into use, too")


class Command(RatchetCommand):
    help = "Make a version of what is in use that is told something with every question, and serve it."

    def run(self, options: Options) -> None:
        agent = Agent.by_name(options.agent)
        version = instruct(agent, options.text, options.instruction_place)
        if options.use:
            promote(agent, version, report=self.report)
        figures = {"version": version.name, "in use": options.use, "asked for as": f"{agent.name}@{version.name}"}
        self.result(figures, two_columns(f"{agent.name} {version.name}: {version.instruction}", figures))
