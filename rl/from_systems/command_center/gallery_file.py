"""Command Center's ``widget-feedback.json``: stars that people gave in the gallery of widgets.

``{"widgets": [{id, scenario, variant, rating 0 … 5, tags, notes, timestamp}], "dashboards": […], "pages": […]}``. A widget's
variant becomes an answer to the question how to draw its scenario, so that variants of one scenario can be compared. 0 stars
mean that it was not rated. Dashboards and pages name no answer, and are skipped with that reason."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rl.base.records import Message
from rl.collect.importers import fields
from rl.collect.importers.rows import Record, Rejected, records
from rl.collect.traces.imported import ImportedFeedback, ImportedTrace

__all__ = ["SUFFIXES", "read"]
SUFFIXES = (".json",)
RATER = "device:command-center-gallery"
"""The gallery keeps one store, and does not say whose."""
_READ_AS = {
    "id": "the id of the variant",
    "scenario": "the question",
    "variant": "the answer",
    "rating": "stars",
    "tags": "tags of the rating",
    "notes": "the note of the rating",
    "timestamp": "the time",
}


def read(path: Path) -> Iterator[Record | Rejected]:
    """Raises BadFile."""
    return records(path, _feedback, lists=("widgets", "dashboards", "pages"), columns=_READ_AS)


def _feedback(row: dict[str, Any], where: str) -> list[ImportedTrace]:
    if "scenario" not in row and ("dashboardId" in row or "pageId" in row):
        raise fields.NotForUs("is about a whole dashboard or page; only widgets are read")
    scenario, variant = fields.required_text(row, "scenario"), fields.text(row, "variant").strip() or "default-render"
    stars = fields.number(row, "rating")
    if stars not in (0, 1, 2, 3, 4, 5, None):
        raise fields.Refused(f"rating must be a whole number from 0 to 5, not {row.get('rating')!r:.50}")
    if not stars:
        raise fields.NotForUs("was not rated: it has 0 stars")
    at = fields.moment(row, "timestamp")
    rating = ImportedFeedback(
        kind="rating",
        rater=RATER,
        scale="stars",
        value=stars,
        tags=fields.tags(row.get("tags")),
        notes=fields.notes(fields.text(row, "notes")),
        rated_at=at,
    )
    question = f"Select the variant that shows the widget {scenario} best. Answer with its name only."
    return [
        ImportedTrace(
            where=where,
            external_id=fields.content_hash("command_center_gallery", scenario, variant),
            prompt=(Message(role="user", content=question),),
            response=variant,
            details={"gallery_id": fields.text(row, "id"), "widget": scenario},
            occurred_at=at,
            feedback=(rating,),
        )
    ]
