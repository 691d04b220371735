"""Tables of what is served, and of what a deployment would do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.table import Table

from rl.management.base import two_columns

IN_USE = {"champion": "yes", "previous": "before"}
"""Alias to what the table shows of it as use."""


def deployments_table(entries: Sequence[Mapping[str, Any]]) -> Table:
    table = Table("version", title="Served", title_justify="left")
    table.add_column("in use", no_wrap=True)
    table.add_column("target", no_wrap=True)
    table.add_column("name", no_wrap=True)
    table.add_column("address", overflow="fold")
    table.add_column("alive", no_wrap=True)
    shows_best = any(entry["best_of"] > 1 for entry in entries)
    if shows_best:
        table.add_column("best of", no_wrap=True)
    for entry in entries:
        alive = {True: "yes", False: "no", None: "–"}[entry["alive"]]
        if entry["memory_bytes"] is not None:
            alive = f"{alive}, {entry['memory_bytes'] / 1e6:,.0f} MB"
        address = entry["url"] or entry["problem"]
        best = [str(entry["best_of"])] if shows_best else []
        alias = IN_USE.get(entry["alias"], "")
        table.add_row(entry["version"], alias, entry["target"], entry["model_name"], address, alive, *best)
    return table


def plan_tables(title: str, document: Mapping[str, Any]) -> list[Table]:
    """The hosting profile has a table of its own, with the reason of each number."""
    plain = {name: value for name, value in document.items() if name not in ("profile", "reasons")}
    tables = [two_columns(title, {**plain, "retired": ", ".join(document.get("retired", ())) or "none"})]
    if profile := document.get("profile"):
        table = Table("", "value", "reason", title=f"Hosting profile {profile['name']}", title_justify="left")
        for name, value in profile.items():
            if name != "name":
                table.add_row(name, str(value), document["reasons"].get(name, ""))
        tables.append(table)
    return tables
