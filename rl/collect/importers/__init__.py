"""Files of other systems. An importer is one module whose ``run`` is an Importer."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Protocol

from rl.collect.importers.report import ImportReport
from rl.errors import UsageError
from rl.models import Agent
from rl.records import Report, silent

IMPORTERS: dict[str, str] = {
    "command_center": "rl.collect.importers.command_center",
}


class Importer(Protocol):
    def __call__(
        self,
        agent: Agent,
        data_file: Path | str,
        ratings_file: Path | str | None = None,
        *,
        dry_run: bool = False,
        report: Report = silent,
    ) -> ImportReport: ...


def importer(name: str) -> Importer:
    """Raises UsageError that lists the known formats."""
    if name not in IMPORTERS:
        raise UsageError(f"unknown format {name!r}; known: {', '.join(IMPORTERS)}")
    found: Importer = import_module(IMPORTERS[name]).run
    return found


__all__ = ["IMPORTERS", "ImportReport", "Importer", "importer"]
