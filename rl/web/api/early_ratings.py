"""Ratings of answers that are not here yet: with a token they wait."""

from __future__ import annotations

from typing import Any

from django.utils import timezone
from rest_framework import serializers
from rest_framework.exceptions import Throttled

from rl.base.errors import UsageError
from rl.collect.feedback.waiting import Early, Kept, NoRoom, drop, keep
from rl.models import ApiKey
from rl.web.api.tokens import read_token


class Waits(serializers.Serializer):
    """The rating counts from when its answer comes."""

    trace = serializers.UUIDField()
    waiting = serializers.BooleanField()


def wait(key: ApiKey, data: dict[str, Any], common: dict[str, Any]) -> Kept:
    """``data`` of a rating, checked, and what its event would say. Raises TokenRefused, TokenSpent, Throttled, and Arrived
    where its answer has come meanwhile.

    A server that is full asks to come again: the widget keeps the rating meanwhile."""
    subject = read_token(key, data["trace"], data["token"])
    now = timezone.now()
    early = Early(
        entry_id=str(subject.trace_id),
        rater=common["rater"],
        scale=data["scale"],
        value=data["value"],
        rated_at=min(common.get("rated_at", now), now),
        tags=common.get("tags", ()),
        notes=common.get("notes", ""),
        by_id=True,
        address=common["address"],
        raters=next(iter(common["token_raters"]), None),
    )
    (outcome,) = keep([early], subject.agent_id, key)
    if isinstance(outcome, NoRoom):
        raise Throttled(detail=str(outcome)) from outcome
    if isinstance(outcome, UsageError):
        raise outcome
    return outcome


def forget(key: ApiKey, data: dict[str, Any], rater: str) -> bool:
    """Whether a rating waited that is withdrawn now. Raises TokenRefused."""
    subject = read_token(key, data["trace"], data["token"])
    return drop(str(subject.trace_id), subject.agent_id, rater)
