"""A receipt in sentences."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rl.forgetting.receipts import Receipt


def sentences(receipt: Receipt) -> list[str]:
    return [*_learners(receipt["uses"]), *_files(receipt["files"]), *_retrain(receipt), *_remains(receipt["remains"])]


def _learners(uses: dict[str, Any]) -> Iterator[str]:
    for row in uses["training_sets"]:
        yield f"Training set {row['id']} of {row['agent']} ({row['method']}) read it."
    for row in uses["versions"]:
        use = "in use" if row["in_use"] else "not in use"
        yield f"Version {row['version']} of {row['agent']} learned from it ({use})."
    if uses["label_models"]:
        numbers = ", ".join(map(str, uses["label_models"]))
        yield f"Judges that may have learned from it: {numbers}; the next training or auto_label makes a new one."


def _files(files: dict[str, Any]) -> Iterator[str]:
    yield from (f"Deleted {path}." for path in files["deleted"])
    yield from (f"{path} still holds it: {advice}." for path, advice in files["kept"].items())


def _retrain(receipt: Receipt) -> Iterator[str]:
    for row in receipt["retrain"]:
        run = f"run {row['run']}: {row['reason']}" if row["run"] is not None else row["reason"]
        yield f"Training of {row['agent']} without them: {run}."
    if name := receipt.get("receipt"):
        yield f"Receipt: forgotten/{name} in DATA_DIR."


def _remains(remains: dict[str, Any]) -> Iterator[str]:
    counts = {name: remains[name] for name in ("accounts", "audit_events", "admin_log_entries") if remains[name]}
    if counts:
        yield "What still names them: " + ", ".join(f"{n} {name.replace('_', ' ')}" for name, n in counts.items()) + "."
    if remains["backups"]:
        yield f"Backups that hold what was there: {', '.join(remains['backups'])}."
    yield from (
        f"{remains[name][0].upper()}{remains[name][1:]}." for name in ("database", "elsewhere") if remains.get(name)
    )
