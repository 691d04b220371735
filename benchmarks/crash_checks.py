"""Compares a ledger of promises with what is stored. With a site's settings:

.venv/bin/python benchmarks/crash_checks.py LEDGER

Prints one JSON object: ``violations``, a list of sentences, and ``counts``.
"""

import json
import os
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
os.environ["DJANGO_SETTINGS_MODULE"] = "backend.settings"

import django

django.setup()

from django.conf import settings  # noqa: E402
from django.db import connection  # noqa: E402

from rl.export.release import artifact_path  # noqa: E402
from rl.models import Artifact, Feedback, ModelVersion, Trace, TrainingRun  # noqa: E402
from rl.versions.versions import artifact_fields  # noqa: E402

Rows = list[dict[str, Any]]


def main() -> None:
    ledger = json.loads(Path(sys.argv[1]).read_text())
    violations = [
        *_traces(ledger["traces"]),
        *_ratings(ledger["ratings"]),
        *_answers(ledger["answers"]),
        *_runs(ledger["runs"]),
        *_artifacts(),
        *_files(),
        *_database(),
    ]
    print(json.dumps({"violations": violations, "counts": _counts(ledger)}))


def _counts(ledger: dict[str, Rows]) -> dict[str, int]:
    states = Counter(TrainingRun.objects.values_list("state", flat=True))
    return {
        "answers stored": sum(row["id"] is not None for row in ledger["traces"]),
        "ratings acknowledged": sum(row["event"] is not None for row in ledger["ratings"]),
        "ratings without an answer": sum(row["event"] is None for row in ledger["ratings"]),
        "gateway: whole answers": sum(row["whole"] for row in ledger["answers"]),
        "gateway: answers that broke off": sum(not row["whole"] for row in ledger["answers"]),
        "runs acknowledged": len(ledger["runs"]),
        **{f"runs {state}": number for state, number in sorted(states.items())},
        "attempts of runs": sum(TrainingRun.objects.values_list("attempt", flat=True)),
        "versions": ModelVersion.objects.count(),
    }


def _traces(promised: Rows) -> Iterator[str]:
    stored = dict(Trace.objects.exclude(external_id=None).values_list("external_id", "response"))
    ids = {str(pk) for pk in Trace.objects.values_list("pk", flat=True)}
    for row in promised:
        if row["id"] and row["id"] not in ids:
            yield f"the acknowledged answer {row['external_id']} is lost"
        elif row["id"] and stored.get(row["external_id"]) != row["response"]:
            yield f"the answer {row['external_id']} is not what was sent"


def _ratings(promised: Rows) -> Iterator[str]:
    """One event for each rating that was sent: each acknowledged one, and at most one for those whose fate nobody knows.
    A rating that says what the one before said is none."""
    stored: dict[tuple[str, str], list[tuple[int, float, bool]]] = defaultdict(list)
    rows = Feedback.objects.filter(kind="rating").order_by("rated_at", "pk")
    for pk, trace, rater, value, current in rows.values_list("pk", "trace_id", "rater", "value", "is_current"):
        stored[str(trace), rater].append((pk, value, current))
    sent: dict[tuple[str, str], Rows] = defaultdict(list)
    for rating in promised:
        sent[rating["trace"], rating["rater"]].append(rating)
    for key, ratings in sent.items():
        yield from _one_rater(" by ".join(key), ratings, stored[key])


def _one_rater(label: str, sent: Rows, stored: list[tuple[int, float, bool]]) -> Iterator[str]:
    known = {pk for pk, _, _ in stored}
    acknowledged = [rating for rating in sent if rating["event"] is not None]
    if lost := [rating for rating in acknowledged if rating["event"] is not True and rating["event"] not in known]:
        yield f"{label}: {len(lost)} acknowledged ratings are lost"
    if acknowledged and not stored:
        yield f"{label}: the acknowledged rating is lost"
    if len(stored) > len(sent):
        yield f"{label}: {len(stored)} ratings are stored, {len(sent)} were sent"
    current = [value for _, value, is_current in stored if is_current]
    if stored and len(current) != 1:
        yield f"{label}: {len(current)} ratings are current"
    if acknowledged and acknowledged[-1] is sent[-1] and current and current[0] != float(sent[-1]["value"]):
        yield f"{label}: the last rating is not the one that counts"


def _answers(promised: Rows) -> Iterator[str]:
    rows = Trace.objects.filter(source="gateway").values_list("pk", "response", "details")
    stored = {str(pk): (response, details) for pk, response, details in rows}
    for answer in promised:
        kind = "whole" if answer["whole"] else "broken-off"
        if answer["id"] not in stored:
            yield f"the {kind} answer {answer['id']} of the gateway is lost"
            continue
        text, details = stored[answer["id"]]
        if answer["whole"] and (text != answer["text"] or not details.get("complete")):
            yield f"the whole answer {answer['id']} of the gateway is stored otherwise"
        elif not text.startswith(answer["text"]) and not answer["text"].startswith(text):
            yield f"the broken-off answer {answer['id']} of the gateway is stored otherwise"
        elif not details.get("complete") and not details.get("error"):
            yield f"the broken-off answer {answer['id']} of the gateway is not marked as such"


def _runs(promised: Rows) -> Iterator[str]:
    runs = {run.pk: run for run in TrainingRun.objects.all()}
    for row in promised:
        if row["id"] not in runs:
            yield f"the acknowledged run {row['id']} is lost"
    for run in runs.values():
        if run.is_active:
            yield f"run {run.pk} is {run.state} and does not end: {run.stage}"
        if (
            run.state == TrainingRun.State.FAILED
            and "No space left" not in run.error
            and "disk" not in run.error.lower()
        ):
            yield f"run {run.pk} failed: {run.error[:300]}"
        if run.state == TrainingRun.State.SUCCEEDED and run.version_id is None:
            yield f"run {run.pk} succeeded without a version"
    trained = ModelVersion.objects.filter(artifacts__kind="adapter")
    for version in trained.filter(run=None):
        yield f"version {version} was made by no run"


def _artifacts() -> Iterator[str]:
    for artifact in Artifact.objects.select_related("version"):
        path = artifact_path(artifact)
        if not path.exists():
            yield f"{path} of {artifact} is missing"
        elif artifact_fields(path)["sha256"] != artifact.sha256:
            yield f"{path} is not what {artifact} says"


def _files() -> Iterator[str]:
    """Answers that still wait, and those that could not be read."""
    folder = settings.DATA_DIR / "gateway" / "pending"
    for path in folder.glob("[!.]*") if folder.exists() else ():
        yield f"{path.relative_to(settings.DATA_DIR)} was not delivered"


def _database() -> Iterator[str]:
    if connection.vendor == "sqlite":
        with connection.cursor() as cursor:
            cursor.execute("PRAGMA integrity_check")
            if (report := cursor.fetchone()[0]) != "ok":
                yield f"SQLite: {report}"


if __name__ == "__main__":
    main()
