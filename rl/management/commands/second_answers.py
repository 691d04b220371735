"""Second answers by hand."""

from rl.base.errors import RunConflict, UsageError
from rl.management.base import RatchetCommand, two_columns
from rl.management.options import CommandOptions, option
from rl.models import Agent
from rl.serving.second_answers import make, waiting, why_not_now


class Options(CommandOptions):
    agent: str = option(required=True)
    limit: int | None = option(help="at most so many; by default as many as may wait")


class Command(RatchetCommand):
    help = "Asks for another answer to what people asked, to be compared. The queue does it when the machine is idle."

    def run(self, options: Options) -> None:
        agent = Agent.by_name(options.agent)
        if options.limit is not None and options.limit < 1:
            raise UsageError("--limit must be at least 1")
        if reason := why_not_now():
            raise RunConflict(f"no second answer is made now: {reason}")
        made = make([agent], limit=options.limit)
        figures = {"made": made, "waiting": waiting(agent).count(), "at most": agent.second_answers}
        self.result(figures, two_columns(f"second answers of {agent.name}", figures))
