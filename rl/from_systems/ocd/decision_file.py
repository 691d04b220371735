"""OCD's decisions: its records as they are (see ``rl.from_systems.ocd.records``), or the rows that it exports for training.

An exported row is ``{"prompt", "completion": JSON text of the action, "reward", "confidence", "metadata": {decisionId}}``;
it has lost its state and its agent.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from rl.base.records import Message
from rl.collect.importers.fields import Refused, obj, others, required_text
from rl.collect.importers.rows import SUFFIXES, Record, Rejected, records
from rl.collect.traces.imported import ImportedTrace
from rl.from_systems.ocd.records import read_decision

__all__ = ["SUFFIXES", "read"]
_ROW = ("prompt", "completion", "metadata")


def read(path: Path) -> Iterator[Record | Rejected]:
    """Raises BadFile."""
    return records(path, _decision, lists=("decisions", "data"))


def _decision(row: dict[str, Any], where: str) -> list[ImportedTrace]:
    if "completion" in row and "state" not in row:
        return [_read_exported_row(row, where)]
    return [_read(row, where)]


def _read(mapping: Mapping[str, Any], where: str) -> ImportedTrace:
    decision = read_decision(mapping, where)
    if isinstance(decision, Rejected):
        raise Refused(decision.reason)
    return decision


def _read_exported_row(row: dict[str, Any], where: str) -> ImportedTrace:
    prompt, completion = required_text(row, "prompt"), required_text(row, "completion")
    try:
        action = json.loads(completion)
    except (ValueError, RecursionError):
        raise Refused("completion must be the JSON text of the action") from None
    decision = _read({**others(row, _ROW), **obj(row, "metadata"), "state": prompt, "action": action}, where)
    return replace(decision, prompt=(Message(role="user", content=prompt),), response=completion, state=None)
