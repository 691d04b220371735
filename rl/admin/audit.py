"""Who did what."""

from __future__ import annotations

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, StreamingHttpResponse
from django.urls import URLPattern, re_path

from rl.admin.readonly import ReadOnlyAdmin
from rl.models import AuditEvent
from rl.operations import audit
from rl.operations.audit_export import FORMATS


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
