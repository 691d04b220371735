"""Import."""

from collections.abc import Sequence
from dataclasses import asdict

from django.db import DatabaseError
from rich.markup import escape
from rich.table import Table

from rl.base.errors import RatchetError, UsageError
from rl.collect.importers import BY_ITSELF, IMPORTERS, ImportReport, importer, reader
from rl.collect.importers.report import Ledger
from rl.collect.ingest.importing import import_files
from rl.dataset_builder.first_row import first_row, stored_row
from rl.management.base import RatchetCommand
from rl.management.options import CommandOptions, argument, option
from rl.management.tables import preview_lines
from rl.models import Agent
from rl.runs.preview import Preview, preview_first


class Options(CommandOptions):
    paths: Sequence[str] = argument(nargs="*", metavar="PATH", help="files or folders of the format")
    format: str = option(default=BY_ITSELF, help=f"of the files: {', '.join(IMPORTERS)}")
    agent: str | None = option(help="whose answers these are, where they do not say it; made if there is none")
    data_file: str | None = option(help=f"the answers of {BY_ITSELF}: exhaustive_data.json")
    ratings_file: str | None = option(help=f"the ratings of {BY_ITSELF}: ratings.json")
    scale: list[str] = option(
        action="append",
        default=[],
        metavar="LOW..HIGH",
        help="of the scores of langfuse_score; user-rating=1..5 for one",
    )
    allow_unread: bool = option(
        action="store_true", help="import also a file of which labels or texts are not read for most records"
    )
    dry_run: bool = option(action="store_true", help="say what would be imported, and write nothing")


class Command(RatchetCommand):
    help = "Bring answers and feedback of another system into the database. A second run changes nothing."

    def run(self, options: Options) -> None:
        dry_run, by_itself = options.dry_run, options.format == BY_ITSELF
        name, agent = options.agent, None
        if name is not None:
            agent = Agent.objects.filter(name__iexact=name).first() or Agent.new(name)
        report = (self._import_command_center if by_itself else self._import_files)(agent, options)
        self.report("stage", {"name": "the first row as it would be trained"})
        name, learns = self._first_row(report, agent, options)
        document = {"agent": agent.name if agent else None, "dry_run": dry_run, **report.as_dict()}
        document["learns"] = asdict(learns)
        title = f"{options.format}: {'would be imported (dry run, nothing was written)' if dry_run else 'imported'}"
        tables = [import_table(title, report), *([column_table(report.ledger)] if report.ledger.columns else [])]
        lines = [*skipped_lines(report), *preview_lines(name, learns)]
        self.result(document, *tables, lines=lines)

    def _first_row(self, report: ImportReport, agent: Agent | None, options: Options) -> tuple[str, Preview]:
        """What is imported stays so whatever comes of it."""
        try:
            first = first_row(report.sample, options.format, agent)
            if first is None and agent and agent.pk and not options.dry_run:
                first = stored_row(agent)
            return (first.name, preview_first(first)) if first else ("", Preview())
        except (RatchetError, DatabaseError) as error:
            self.report("log", {"text": f"the first row cannot be shown: {error}"})
            return "", Preview()

    def _import_command_center(self, agent: Agent | None, options: Options) -> ImportReport:
        if options.paths or not options.data_file or agent is None:
            others = ", ".join(name for name in IMPORTERS if name != BY_ITSELF)
            raise UsageError(
                f"{BY_ITSELF} takes --agent NAME --data-file FILE [--ratings-file FILE]; "
                f"for other files say their --format: {others}"
            )
        files = (options.data_file, options.ratings_file)
        report: ImportReport = importer(BY_ITSELF)(agent, *files, dry_run=options.dry_run, report=self.report)
        return report

    def _import_files(self, agent: Agent | None, options: Options) -> ImportReport:
        name = options.format
        reader(name)  # an unknown format is the first thing to say
        if options.data_file or options.ratings_file:
            raise UsageError(f"--data-file and --ratings-file belong to {BY_ITSELF}; give {name} its files as PATH")
        if not options.paths:
            raise UsageError(f"name the files or folders to import: import_traces --format {name} PATH")
        return import_files(
            name,
            options.paths,
            agent=agent,
            scales=options.scale,
            allow_unread=options.allow_unread,
            dry_run=options.dry_run,
            report=self.report,
        )


def import_table(title: str, report: ImportReport) -> Table:
    columns = ("read", "imported", "updated", "unchanged", "skipped")
    table = Table("", *columns, title=title, title_justify="left")
    for name, count in (("answers", report.traces), ("feedback", report.feedback)):
        figures = (count.read, count.imported, count.updated, count.unchanged, count.skipped.total())
        table.add_row(name, *(f"{figure:,}" for figure in figures))
    return table


def column_table(ledger: Ledger) -> Table:
    table = Table("column", "became", "records", title="columns", title_justify="left")
    for name, fates in ledger.columns.items():
        for number, (fate, count) in enumerate(fates.most_common()):
            table.add_row("" if number else escape(name), fate, f"{count:,} of {ledger.records:,}")
    return table


def skipped_lines(report: ImportReport) -> list[str]:
    lines = []
    for count in (report.traces, report.feedback):
        for reason, number in count.skipped.most_common():
            examples = count.examples[reason]
            more = ", …" if number > len(examples) else ""
            lines.append(f"skipped {number:,}: {reason} ({', '.join(examples)}{more})")
    return lines
