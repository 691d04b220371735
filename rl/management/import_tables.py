"""What an import did, as a table, and what it left out, as lines."""

from __future__ import annotations

from rich.table import Table

from rl.collect.importers import ImportReport


def import_table(title: str, report: ImportReport) -> Table:
    columns = ("read", "imported", "updated", "unchanged", "skipped")
    table = Table("", *columns, title=title, title_justify="left")
    for name, count in (("answers", report.traces), ("feedback", report.feedback)):
        figures = (count.read, count.imported, count.updated, count.unchanged, count.skipped.total())
        table.add_row(name, *(f"{figure:,}" for figure in figures))
    return table


def skipped_lines(report: ImportReport) -> list[str]:
    lines = []
    for count in (report.traces, report.feedback):
        for reason, number in count.skipped.most_common():
            examples = count.examples[reason]
            more = ", …" if number > len(examples) else ""
            lines.append(f"skipped {number:,}: {reason} ({', '.join(examples)}{more})")
    return lines
