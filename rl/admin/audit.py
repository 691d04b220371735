"""Who did what."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from typing import Any, Final

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import HttpRequest, StreamingHttpResponse
from django.urls import URLPattern, re_path

from rl.admin.readonly import ReadOnlyAdmin
from rl.models import AuditEvent
from rl.operations import audit


@admin.register(AuditEvent)
class AuditEventAdmin(ReadOnlyAdmin):
    list_display = ["at", "actor", "action", "target", "agent", "address"]
    list_filter = ["action", "at"]
    search_fields = ["actor", "target", "agent", "=address", "=request_id"]
    search_help_text = "Words of who, what or which agent; a whole address or request id."
    fields = ["at", "actor", "action", "target", "agent", "address", "request_id", "details"]

    def get_urls(self) -> list[URLPattern]:
        view = self.admin_site.admin_view(self.export)
        return [re_path(r"^export\.(csv|jsonl)\Z", view, name="rl_auditevent_export"), *super().get_urls()]

    def export(self, request: HttpRequest, form: str) -> StreamingHttpResponse:
        """What the list shows, with its filters and its search, all pages of it. That it was exported is an event too."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        events = self.get_changelist_instance(request).get_queryset(request)
        audit.record(audit.Action.EXPORTED, "audit log", form=form, query=request.GET.urlencode()[:500])
        lines, media_type = FORMATS[form]
        name = f'attachment; filename="audit.{form}"'
        return StreamingHttpResponse(
            lines(events), content_type=f"{media_type}; charset=utf-8", headers={"Content-Disposition": name}
        )


COLUMNS: Final = ("at", "actor", "action", "target", "agent", "address", "request_id", "details")
_ROWS_AT_ONCE = 1000
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r", "\n")
"""How a cell begins that spreadsheets would compute; https://owasp.org/www-community/attacks/CSV_Injection."""


class _Line:
    """What csv writes into: it gives each line back."""

    def write(self, text: str) -> str:
        return text


def csv_lines(events: QuerySet[AuditEvent]) -> Iterator[str]:
    """With a heading. A cell that could be a formula begins with an apostrophe."""
    writer: Any = csv.writer(_Line())
    yield writer.writerow(COLUMNS)
    for values in _documents(events):
        details = json.dumps(values["details"], ensure_ascii=False) if values["details"] else ""
        cells = map(str, {**values, "details": details}.values())
        yield writer.writerow([f"'{cell}" if cell.startswith(_FORMULA) else cell for cell in cells])


def json_lines(events: QuerySet[AuditEvent]) -> Iterator[str]:
    return (json.dumps(values, ensure_ascii=False) + "\n" for values in _documents(events))


FORMATS: Final = {"csv": (csv_lines, "text/csv"), "jsonl": (json_lines, "application/jsonl")}


def _documents(events: QuerySet[AuditEvent]) -> Iterator[dict[str, Any]]:
    for row in events.values(*COLUMNS).iterator(chunk_size=_ROWS_AT_ONCE):
        yield {**row, "at": row["at"].isoformat()}
