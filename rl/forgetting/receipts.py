"""Receipts: what was forgotten, without saying who. ``DATA_DIR/forgotten/<time>-<hash>.json``, for the operator's eyes."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

from django.conf import settings

from rl.base.files import write_text
from rl.forgetting.records import Person

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


def sentences(receipt: Receipt) -> Iterator[str]:
    """Says for people what was forgotten, and what is left."""
    uses, files, remains = receipt["uses"], receipt["files"], receipt["remains"]
    for row in uses["training_sets"]:
        yield f"Training set {row['id']} of {row['agent']} ({row['method']}) read it."
    for row in uses["versions"]:
        use = "in use" if row["in_use"] else "not in use"
        yield f"Version {row['version']} of {row['agent']} learned from it ({use})."
    if uses["label_models"]:
        numbers = ", ".join(map(str, uses["label_models"]))
        yield f"Judges that may have learned from it: {numbers}; the next training or auto_label makes a new one."
    yield from (f"Deleted {path}." for path in files["deleted"])
    yield from (f"{path} still holds it: {advice}." for path, advice in files["kept"].items())
    for row in receipt["retrain"]:
        run = f"run {row['run']}: {row['reason']}" if row["run"] is not None else row["reason"]
        yield f"Training of {row['agent']} without them: {run}."
    if name := receipt.get("receipt"):
        yield f"Receipt: forgotten/{name} in DATA_DIR."
    counts = {name: remains[name] for name in ("accounts", "audit_events", "admin_log_entries") if remains[name]}
    if counts:
        yield "What still names them: " + ", ".join(f"{n} {name.replace('_', ' ')}" for name, n in counts.items()) + "."
    if remains["backups"]:
        yield f"Backups that hold what was there: {', '.join(remains['backups'])}."
    yield from (
        f"{remains[name][0].upper()}{remains[name][1:]}." for name in ("database", "elsewhere") if remains.get(name)
    )
