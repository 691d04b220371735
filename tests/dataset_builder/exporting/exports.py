"""Exports to a file in a temporary folder, and back."""

from pathlib import Path
from typing import Any

from rl.base.records import silent
from rl.dataset_builder import DataOptions
from rl.dataset_builder.exporting import ExportFilters
from rl.dataset_builder.exporting.export import ExportReport, ExportRequest, export
from rl.models import Agent
from tests.dataset_builder.ratings import read_jsonl


def write(
    agent: Agent,
    name: str,
    path: Path,
    *,
    limit: int | None = None,
    split: str = "all",
    val_split: float = 0.2,
    **filters: Any,
) -> ExportReport:
    data = DataOptions(pair_type=agent.pair_type, val_split=val_split)
    request = ExportRequest(format=name, filters=ExportFilters(data=data, **filters), split=split, limit=limit)
    return export(agent, request, path, path.suffix.removeprefix("."), silent)


def exported(agent: Agent, name: str, folder: Path, **options: Any) -> list[dict[str, Any]]:
    write(agent, name, folder / "rows.jsonl", **options)
    return read_jsonl(folder / "rows.jsonl")
