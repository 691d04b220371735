"""Forget a person."""

from rich.table import Table

from rl.forgetting.forget import forget, preview, require_somebody
from rl.forgetting.receipts import sentences
from rl.forgetting.records import find_person
from rl.management.base import RatchetCommand, two_columns
from rl.management.options import CommandOptions, argument, option
from rl.models import Agent


class Options(CommandOptions):
    rater: str = argument(help="as the feedback list names them: user:alice, device:…, invite:12")
    agent: str | None = option(help="only what they left at this agent")
    also: list[str] = option(action="append", default=[], metavar="RATER", help="another name of the same person")
    dry_run: bool = option(action="store_true", help="say what would be done, and do nothing")
    no_retrain: bool = option(action="store_true", help="queue no training without them")
    delete_files: bool = option(
        action="store_true", help="also delete frozen rows, run folders and versions not in use"
    )


class Command(RatchetCommand):
    help = "Deletes what a person said and wrote, names what learned from it, and queues a clean training."

    def run(self, options: Options) -> None:
        person = find_person(options.rater, options.also, Agent.by_name(options.agent) if options.agent else None)
        require_somebody(person)
        if options.dry_run:
            receipt = preview(person)
        else:
            receipt = forget(person, delete_files=options.delete_files, retrain=not options.no_retrain)
        title = "would be deleted" if options.dry_run else "deleted"
        table: Table = two_columns(title, receipt["deleted"] or {"nothing": 0})
        self.result({"dry_run": options.dry_run, **receipt}, table, lines=list(sentences(receipt)))
