"""Receipts: what was forgotten, without saying who. ``DATA_DIR/forgotten/<time>-<hash>.json``, for the operator's eyes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

from django.conf import settings

from rl.base.files import write_text
from rl.forgetting.person import Person

Receipt = dict[str, Any]


def folder() -> Path:
    return settings.DATA_DIR / "forgotten"


def new_path(person: Person) -> Path:
    return folder() / f"{datetime.now(UTC):%Y%m%dT%H%M%S.%fZ}-{person.marks[0][:12]}.json"


def write(path: Path, receipt: Receipt) -> None:
    """Appears whole. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    write_text(path, f"{json.dumps(receipt, indent=2, ensure_ascii=False)}\n")


def earlier(person: Person) -> Iterator[Receipt]:
    """Those of the same person, the oldest first: of one that was interrupted only the receipt knows what was left to do."""
    for path in sorted(folder().glob("*.json")):
        receipt = json.loads(path.read_text(encoding="utf-8"))
        if set(receipt["person"]) & set(person.marks):
            yield receipt


def known_sets(receipts: list[Receipt]) -> set[UUID]:
    return {UUID(row["id"]) for receipt in receipts for row in receipt["uses"]["training_sets"]}


def known_runs(receipts: list[Receipt]) -> dict[str, int]:
    """Agent to the clean run that was queued for it."""
    return {row["agent"]: row["run"] for receipt in receipts for row in receipt["retrain"] if row["run"] is not None}
