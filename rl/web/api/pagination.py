"""Cursors, and how large the rows of an answer are, before they are read: rows are counted, and what is in them too."""

import re
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Final, TypeVar

from django.core.exceptions import ValidationError as WrongValue
from django.db.models import Exists, Expression, F, JSONField, Model, OuterRef, QuerySet, TextField, Value
from django.db.models.functions import Cast, Coalesce, Length
from django.utils.dateparse import parse_datetime
from django_filters import rest_framework as filters
from django_filters.fields import IsoDateTimeField
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema_field
from rest_framework.exceptions import NotFound, ValidationError
from rest_framework.pagination import CursorPagination
from rest_framework.request import Request
from rest_framework.response import Response

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
            raise WrongValue(self.error_messages["invalid"], code="invalid") from error


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


MOST_CHARACTERS: Final = 4_000_000
"""What the texts and JSON columns that one answer reads have together. A row that has more by itself is answered alone."""
Key = TypeVar("Key")
Row = TypeVar("Row", bound=Model)


def size_of(model: type[Model]) -> Expression:
    """Characters of a row's texts and JSON."""
    large = [field.name for field in model._meta.concrete_fields if isinstance(field, (TextField, JSONField))]
    lengths = (Coalesce(Length(Cast(F(name), TextField())), Value(0)) for name in large)
    return sum(lengths, Value(0))


def keys_within(rows: QuerySet[Row], most: int) -> list[Any]:
    """As many of the first rows, ``most`` at the most, as ``within`` takes."""
    return [pk for pk, _ in within(rows.values_list("pk", size_of(rows.model))[:most], lambda key: key[1])]


def within(keys: Iterable[Key], size: Callable[[Key], int], most: int = MOST_CHARACTERS) -> list[Key]:
    """The first of them that have ``most`` characters together, one at least."""
    taken: list[Key] = []
    for key in keys:
        most -= size(key)
        if most < 0 and taken:
            break
        taken.append(key)
    return taken


class NewestFirst(CursorPagination):
    """Pages of ``limit`` rows (50 unless said, at most 200, and fewer where these are large) linked by ``next`` and
    ``previous``.

    A cursor stays right while rows are added, and costs the same on the thousandth page as on the first."""

    ordering = ("-created_at", "id")
    page_size = 50
    page_size_query_param = "limit"
    max_page_size = 200
    template = None
    _most = max_page_size

    def get_page_size(self, request: Request) -> int:
        return row_limit(request, self.page_size, self._most)

    def paginate_queryset(self, queryset: Any, request: Request, view: Any = None) -> list[Any] | None:
        """Looks at the sizes of the rows before it reads them."""
        self._most = self.max_page_size
        sizes = queryset.select_related(None).only("pk", "created_at").annotate(size=size_of(queryset.model))
        page: list[Any] = super().paginate_queryset(sizes, request, view) or []
        ordered = page[::-1] if self.cursor and self.cursor.reverse else page
        fitting = len(within(ordered, lambda row: row.size))
        if fitting < len(page):
            self._most = fitting
        return super().paginate_queryset(queryset, request, view)

    def decode_cursor(self, request: Request):  # type: ignore[no-untyped-def]
        cursor = super().decode_cursor(request)
        if cursor is None:
            return None
        try:
            moment = parse_datetime(str(cursor.position)) if cursor.position is not None else None
            is_moment = cursor.position is None or (moment is not None and moment.astimezone(UTC) is not None)
        except (ValueError, OverflowError):
            is_moment = False
        # An empty one is what is left of a text that is no cursor.
        if cursor == (0, False, None) or not is_moment:
            raise NotFound(self.invalid_cursor_message)
        return cursor

    def get_paginated_response(self, data: Any) -> Response:
        """With the neighbours in a header too (RFC 8288), for programs that read no body for them."""
        response: Response = super().get_paginated_response(data)
        links = {"next": response.data["next"], "prev": response.data["previous"]}
        if header := ", ".join(f'<{url}>; rel="{name}"' for name, url in links.items() if url):
            response["Link"] = header
        return response

    def get_schema_operation_parameters(self, view: Any) -> list[dict[str, Any]]:
        cursor, limit = super().get_schema_operation_parameters(view)
        return [cursor, {**limit, "schema": {"type": "integer", "minimum": 1, "default": self.page_size}}]

    def get_paginated_response_schema(self, schema: dict[str, Any]) -> dict[str, Any]:
        link = {"type": ["string", "null"], "format": "uri"}
        return {
            "type": "object",
            "required": ["next", "previous", "results"],
            "properties": {"next": link, "previous": link, "results": schema},
        }


def row_limit(request: Request, default: int, most: int) -> int:
    """``limit`` of the query, cut to ``most``. Raises ValidationError for what is not a number from 1 on."""
    text = request.query_params.get("limit", str(default))
    if not re.fullmatch("[0-9]{1,9}", text) or int(text) == 0:
        raise ValidationError({"limit": ["must be a whole number from 1 on"]})
    return min(int(text), most)


def flag(values: Mapping[str, str], name: str, default: bool) -> bool:
    """Raises ValidationError."""
    known = {"true": True, "1": True, "false": False, "0": False}
    if name not in values:
        return default
    if values[name].lower() not in known:
        raise ValidationError({name: ["must be true or false"]})
    return known[values[name].lower()]
