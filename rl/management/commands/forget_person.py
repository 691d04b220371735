"""Forget a person."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.core.management.base import CommandParser
from rich.table import Table

from rl.forgetting.forget import forget, preview
from rl.forgetting.person import find_person
from rl.forgetting.wording import sentences
from rl.management.base import RatchetCommand, two_columns
from rl.management.options import read_options
from rl.models import Agent


@dataclass(frozen=True, slots=True)
class Options:
    rater: str
    agent: str | None
    also: list[str]
    dry_run: bool
    no_retrain: bool
    delete_files: bool


class Command(RatchetCommand):
    help = "Deletes what a person said and wrote, names what learned from it, and queues a clean training."

    def add_options(self, parser: CommandParser) -> None:
        parser.add_argument("rater", help="as the feedback list names them: user:alice, device:…, invite:12")
        parser.add_argument("--agent", help="only what they left at this agent")
        parser.add_argument(
            "--also", action="append", default=[], metavar="RATER", help="another name of the same person"
        )
        parser.add_argument("--dry-run", action="store_true", help="say what would be done, and do nothing")
        parser.add_argument("--no-retrain", action="store_true", help="queue no training without them")
        parser.add_argument(
            "--delete-files", action="store_true", help="also delete frozen rows, run folders and versions not in use"
        )

    def run(self, **arguments: Any) -> None:
        options = read_options(Options, arguments)
        person = find_person(options.rater, options.also, Agent.by_name(options.agent) if options.agent else None)
        if options.dry_run:
            receipt = preview(person)
        else:
            receipt = forget(person, delete_files=options.delete_files, retrain=not options.no_retrain)
        title = "would be deleted" if options.dry_run else "deleted"
        table: Table = two_columns(title, receipt["deleted"] or {"nothing": 0})
        self.result({"dry_run": options.dry_run, **receipt}, table, lines=sentences(receipt))
