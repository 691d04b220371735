from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser

from rl.collect.importers import IMPORTERS, importer
from rl.management.base import RatchetCommand
from rl.management.import_tables import import_table, skipped_lines
from rl.models import Agent


class Command(RatchetCommand):
    help = "Bring answers and ratings of another system into the database. A second run changes nothing."

    def add_options(self, parser: CommandParser) -> None:
        parser.add_argument("--format", default="command_center", help=f"of the files: {', '.join(IMPORTERS)}")
        parser.add_argument(
            "--agent", required=True, help="whose answers these are; made if there is none of this name"
        )
        parser.add_argument("--data-file", required=True, help="the answers: exhaustive_data.json")
        parser.add_argument("--ratings-file", help="the ratings: ratings.json")
        parser.add_argument("--dry-run", action="store_true", help="say what would be imported, and write nothing")

    def run(self, **options: Any) -> None:
        name, dry_run = options["agent"], options["dry_run"]
        new = Agent(name=name, pair_type=Agent.PairType.BOTH)
        agent = Agent.objects.filter(name__iexact=name).first() or new
        files = (options["data_file"], options["ratings_file"])
        found = importer(options["format"])(agent, *files, dry_run=dry_run, report=self.report)
        document = {"agent": agent.name, "dry_run": dry_run, **found.as_dict()}
        title = f"{agent.name}: {'would be imported (dry run, nothing was written)' if dry_run else 'imported'}"
        self.result(document, import_table(title, found), lines=skipped_lines(found))
