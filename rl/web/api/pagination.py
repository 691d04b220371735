"""Cursors."""

from __future__ import annotations

import re
from datetime import UTC
from typing import Any

from django.utils.dateparse import parse_datetime
from rest_framework.exceptions import NotFound, ValidationError
from rest_framework.pagination import CursorPagination
from rest_framework.request import Request

from rl.web.api.sizes import size_of, within


class NewestFirst(CursorPagination):
    """Pages of ``limit`` rows (50 unless said, at most 200, and fewer where these are large) linked by ``next`` and
    ``previous``.

    A cursor stays right while rows are added, and costs the same on the thousandth page as on the first.
    """

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

    def decode_cursor(self, request: Request):  # type: ignore[no-untyped-def]  # noqa: ANN201
        cursor = super().decode_cursor(request)
        if cursor is None:
            return None
        # An empty one is what is left of a text that is no cursor.
        if cursor == (0, False, None) or not (cursor.position is None or _is_moment(str(cursor.position))):
            raise NotFound(self.invalid_cursor_message)
        return cursor

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


def _is_moment(position: str) -> bool:
    try:
        moment = parse_datetime(position)
        return moment is not None and moment.astimezone(UTC) is not None
    except (ValueError, OverflowError):
        return False
