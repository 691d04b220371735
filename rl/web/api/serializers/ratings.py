"""Command Center's rating calls. Unknown fields are let pass: its browser code is not ours to change."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from rl.collect.limits import MAX_NOTES_LENGTH, MAX_RATER_LENGTH, MAX_TAG_LENGTH, MAX_TAGS
from rl.models import Feedback
from rl.web.api.auth import DEVICE
from rl.web.api.serializers.fields import NameField, ObjectField, ShortListField, TextField

THUMBS = {"up": 1.0, "down": 0.0}


def device_field() -> NameField:
    return NameField(max_length=MAX_RATER_LENGTH - len(DEVICE), trim_whitespace=True)


def agent_field() -> TextField:
    return TextField(
        max_length=64, required=False, allow_null=True, help_text="Needed where two agents have the same entry_id."
    )


class EntryRating(serializers.Serializer):
    """What a person thinks of one entry."""

    rating = serializers.ChoiceField(list(THUMBS))
    tags = ShortListField(child=TextField(max_length=MAX_TAG_LENGTH), longest=MAX_TAGS, required=False, allow_null=True)
    notes = TextField(max_length=MAX_NOTES_LENGTH, allow_blank=True, required=False, allow_null=True)
    rated_at = serializers.DateTimeField(required=False, allow_null=True, help_text="The latest rating wins.")

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        return {**attrs, "tags": attrs.get("tags") or [], "notes": attrs.get("notes") or ""}


class RatingUpsert(EntryRating):
    entry_id = TextField(max_length=200, help_text="The trace's external_id.")
    device_id = device_field()
    agent = agent_field()


class RatingEcho(serializers.Serializer):
    """The rating that counts now; another one than sent if that was older."""

    entry_id = serializers.CharField(source="trace.external_id")
    device_id = serializers.SerializerMethodField()
    rating = serializers.SerializerMethodField()
    tags = serializers.ListField(child=serializers.CharField())
    notes = serializers.CharField()
    rated_at = serializers.DateTimeField()

    def get_device_id(self, event: Feedback) -> str:
        return event.rater.removeprefix(DEVICE)

    def get_rating(self, event: Feedback) -> str:
        return "up" if (event.value or 0) > 0.5 else "down"


class RatingSync(serializers.Serializer):
    ratings = ObjectField(help_text="entry_id to {rating, tags, notes, rated_at}.")
    device_id = device_field()
    agent = agent_field()


class RejectedRating(serializers.Serializer):
    entry_id = serializers.CharField()
    reason = serializers.CharField()


class SyncResult(serializers.Serializer):
    created = serializers.IntegerField(help_text="First ratings of their entries by this device.")
    updated = serializers.IntegerField(help_text="Entries that it had rated before, changed or not.")
    total = serializers.IntegerField(help_text="created + updated.")
    rejected = RejectedRating(many=True)
