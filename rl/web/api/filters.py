"""Query parameters of the lists."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from django.core.exceptions import ValidationError
from django.db.models import Exists, OuterRef, QuerySet
from django_filters import rest_framework as filters
from django_filters.fields import IsoDateTimeField
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema_field

from rl.models import Agent, Feedback, Trace
from rl.serving.gateway import pending
from rl.web.api.lookups import by_external_id


@extend_schema_field(OpenApiTypes.BOOL)
class TrueOrFalse(filters.TypedChoiceFilter):
    """Anything but true and false is refused, not ignored."""

    def __init__(self, **kwargs: Any) -> None:
        choices = [("true", "true"), ("false", "false")]
        super().__init__(choices=choices, coerce=lambda text: text == "true", **kwargs)


class MomentField(IsoDateTimeField):
    def to_python(self, value: Any) -> datetime | None:
        moment = super().to_python(value)
        try:
            return moment and moment.astimezone(UTC)
        except OverflowError as error:  # the year 1 or 9999, in a time zone that reaches beyond it
            raise ValidationError(self.error_messages["invalid"], code="invalid") from error


class MomentFilter(filters.IsoDateTimeFilter):
    field_class = MomentField


class OfAgent(filters.FilterSet):
    agent = filters.CharFilter(method="of_agent", label="Name of the agent.")
    created_after = MomentFilter(field_name="created_at", lookup_expr="gte", label="ISO 8601.")
    created_before = MomentFilter(field_name="created_at", lookup_expr="lt", label="ISO 8601.")

    def of_agent(self, rows: QuerySet, name: str, value: str) -> QuerySet:
        # By id, so that the (agent, newest) index serves the page.
        agent = Agent.objects.filter(name__iexact=value).first()
        return rows.filter(agent=agent) if agent else rows.none()


class TraceFilter(OfAgent):
    source = filters.CharFilter()
    session_id = filters.CharFilter()
    prompt_key = filters.CharFilter()
    external_id = filters.CharFilter(method="has_external_id")
    rated = TrueOrFalse(method="is_rated", label="Has a current rating.")

    class Meta:
        model = Trace
        fields: list[str] = []

    def has_external_id(self, rows: QuerySet, name: str, value: str) -> QuerySet:
        pending.deliver_named([value])  # of the gateway, a moment ago
        return by_external_id(rows, [value])

    def is_rated(self, rows: QuerySet, name: str, value: bool) -> QuerySet:
        ratings = Feedback.objects.filter(trace=OuterRef("pk"), kind=Feedback.Kind.RATING, is_current=True)
        return rows.filter(Exists(ratings) if value else ~Exists(ratings))


class FeedbackFilter(OfAgent):
    trace = filters.UUIDFilter(field_name="trace_id")
    kind = filters.ChoiceFilter(choices=Feedback.Kind.choices)
    rater = filters.CharFilter()
    current = TrueOrFalse(field_name="is_current", label="Not superseded and not retracted.")

    class Meta:
        model = Feedback
        fields: list[str] = []
