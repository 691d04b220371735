"""What there is."""

from datetime import datetime
from typing import Any

from rl.dataset_builder import get_training_stats
from rl.management.base import NOTHING, RatchetCommand, choose_agent, two_columns
from rl.management.options import CommandOptions, option


class Options(CommandOptions):
    agent: str | None = option(help="default: the only one there is")


class Command(RatchetCommand):
    help = "What an agent can learn from, and what it has learned."

    def run(self, options: Options) -> None:
        stats = get_training_stats(choose_agent(options.agent, NOTHING, self.report).name)
        shown = {name.replace("_", " "): _readable(value) for name, value in stats.items()}
        self.result(stats, two_columns(stats["agent"], shown))


def _readable(value: Any) -> Any:
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%d %H:%M} UTC"
    return "-" if value is None else value
