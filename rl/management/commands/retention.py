"""Delete what is too old."""

from dataclasses import asdict

from rich.table import Table

from rl.management.base import RatchetCommand
from rl.management.options import CommandOptions, option
from rl.operations.retention import KINDS, Expired, count_expired, delete_expired


class Options(CommandOptions):
    dry_run: bool = option(action="store_true", help="say what would be deleted, and delete nothing")


class Command(RatchetCommand):
    help = "Deletes what is older than the KEEP_…_DAYS of .env say. The queue does it once a day."

    def run(self, options: Options) -> None:
        rows = count_expired() if options.dry_run else delete_expired(report=self.report)[0]
        document = {"dry_run": options.dry_run, "kinds": [asdict(row) for row in rows]}
        self.result(document, _table(rows, "would be deleted" if options.dry_run else "deleted"))


def _table(rows: list[Expired], title: str) -> Table:
    table = Table("what", "kept for", "setting", title)
    for row in rows:
        period = f"{row.days} days" if row.days else "ever"
        table.add_row(row.kind, period, KINDS[row.kind].setting, "-" if row.count is None else f"{row.count:,}")
    return table
