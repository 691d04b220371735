"""List, ask now."""

from dataclasses import asdict

from rich.table import Table

from rl.base.errors import SourceFailed
from rl.from_systems.sources import fetching
from rl.from_systems.sources.registered import find_source, sources
from rl.management.base import ActionsCommand
from rl.management.options import CommandOptions, argument, option


class FetchOptions(CommandOptions):
    name: str = argument(help="of the source")
    again: bool = option(action="store_true", help="from the beginning, where something was deleted here")


class Command(ActionsCommand):
    help = "Show the sources of SOURCES_FILE, which the queue asks for feedback every minute, or ask one now."
    actions = {
        "list": "the sources, how much came of each, and what is wrong",
        "fetch": "ask one now, as the queue does",
    }

    def _list(self) -> None:
        table = Table("name", "system", "url", "agent", "last asked", "stored", "refused", "what is wrong")
        entries = []
        for name, source in sources().items():
            known = fetching.progress_of(source)
            counts = (str(known.stored), str(known.refused))
            table.add_row(name, source.system, source.url, source.agent, known.asked_at, *counts, known.error)
            entries.append({"name": name, "system": source.system, "url": source.url, "agent": source.agent})
            entries[-1] |= asdict(known)
        self.result({"sources": entries}, table)

    def _fetch(self, options: FetchOptions) -> None:
        source = find_source(options.name)
        if options.again:
            fetching.forget(source)
        progress = fetching.fetch(source)
        if progress.error:
            raise SourceFailed(progress.error)
        refused = (
            f"; refused so far: {progress.refused}, the last one because it {progress.reason}"
            if progress.reason
            else ""
        )
        self.result(asdict(progress), lines=[f"{progress.stored} new from {source.name}{refused}"])
