"""Two or more runs beside each other: one chart, and what differs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from rl.models import TrainingRun
from rl.web.pages.guards import for_users
from rl.web.pages.runs import check_permission
from rl.web.run_lists import RunFigures, describe

MOST = 6
"""Runs on one chart."""
CHOICES = 100


@for_users
def compare(request: HttpRequest) -> HttpResponse:
    """``?run=1&run=2``; numbers of runs that are not there are said, and left out."""
    check_permission(request, "view")
    wanted = [int(text) for text in dict.fromkeys(request.GET.getlist("run")) if text.isdecimal() and len(text) < 10]
    rows = TrainingRun.objects.select_related("agent", "training_set", "version")
    known = rows.in_bulk(wanted[:MOST])
    figures = describe([known[pk] for pk in wanted if pk in known])
    context = {
        "page": "runs",
        "figures": figures,
        "missing": [pk for pk in wanted[:MOST] if pk not in known],
        "too_many": len(wanted) > MOST,
        "most": MOST,
        "others": TrainingRun.objects.select_related("agent").exclude(pk__in=known).order_by("-pk")[:CHOICES],
        "differences": differences(figures),
    }
    return render(request, "rl/run_compare.html", context)


def differences(figures: Sequence[RunFigures]) -> list[tuple[str, list[str]]]:
    """Name of a setting to its value in each run, where these are not all the same."""
    if len(figures) < 2:
        return []
    columns = [_settings(row) for row in figures]
    names = dict.fromkeys(name for column in columns for name in column)
    rows = [(name, [column.get(name, "–") for column in columns]) for name in names]
    return [(name, values) for name, values in rows if len(set(values)) > 1]


def _settings(row: RunFigures) -> dict[str, str]:
    run, rows = row.run, row.run.training_set
    facts = {
        "agent": run.agent.name,
        "method": run.method,
        "rows to learn from": rows.train_rows if rows else "–",
        "training set": str(rows) if rows else "–",
    }
    options = {name: value for name, value in run.options.items() if name not in ("data", "origins")}
    options |= {f"data: {name}": value for name, value in (run.options.get("data") or {}).items()}
    return {name: _word(value) for name, value in {**facts, **run.config, **options}.items()}


def _word(value: Any) -> str:
    return {"": "–", "None": "–", "True": "yes", "False": "no"}.get(str(value), str(value))
