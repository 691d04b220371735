"""What Command Center's pages send. Unknown fields are let pass: its browser code is not ours to change."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.utils import timezone
from rest_framework import serializers

from rl.collect.feedback.waiting import Early
from rl.collect.limits import MAX_ID_LENGTH, MAX_METRIC_LENGTH, MAX_RATER_LENGTH
from rl.web.api.auth import DEVICE
from rl.web.api.ratings import THUMBS, EntryRating
from rl.web.api.serializers.fields import NameField, ShortListField, TextField

MOST_INTERACTIONS, LONGEST_CORRECTION, LONGEST_ACTION = 50, 500, MAX_METRIC_LENGTH - len("interaction:")


class Device(serializers.Serializer):
    device_id = NameField(
        max_length=MAX_RATER_LENGTH - len(DEVICE), required=False, allow_blank=True, allow_null=True, default=""
    )


class OneRating(EntryRating, Device):
    entry_id = TextField(max_length=MAX_ID_LENGTH)
    rated_at = serializers.DateTimeField()


class RatingOfMany(EntryRating):
    """In a bulk, where what is missing has a default."""

    rating = serializers.ChoiceField(list(THUMBS), default="up")


class Interaction(serializers.Serializer):
    action = TextField(max_length=LONGEST_ACTION)
    widget_index = serializers.IntegerField(required=False, allow_null=True)
    duration_ms = serializers.FloatField(required=False, allow_null=True, min_value=0)


class AnswerThumb(serializers.Serializer):
    """On an answer of the production system."""

    query_id = TextField(max_length=MAX_ID_LENGTH)
    rating = serializers.ChoiceField(list(THUMBS))
    interactions = ShortListField(child=Interaction(), longest=MOST_INTERACTIONS, required=False, allow_null=True)
    correction = TextField(max_length=LONGEST_CORRECTION, allow_blank=True, required=False, allow_null=True)


def thumb_of(data: Mapping[str, Any], entry_id: str, device_id: str | None) -> Early:
    """``data``: what a serializer above has checked. A clock that runs ahead would win over all later ratings."""
    now = timezone.now()
    return Early(
        entry_id=entry_id,
        rater=DEVICE + (device_id or ""),
        value=THUMBS[data["rating"]],
        rated_at=min(data.get("rated_at") or now, now),
        tags=data.get("tags") or (),
        notes=data.get("notes") or "",
    )
