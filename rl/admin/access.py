"""API keys, and failed sign-ins."""

from __future__ import annotations

from typing import Any

from axes.models import AccessAttempt
from django.contrib import admin, messages
from django.db.models import QuerySet
from django.forms import ModelForm
from django.http import HttpRequest
from django.utils.html import format_html

from rl.admin.fields import LinesField, ScopesField
from rl.admin.markup import column
from rl.admin.readonly import ReadOnlyAdmin
from rl.models import ApiKey, usual_scopes
from rl.operations.keys import revoke


class ApiKeyForm(ModelForm):
    allowed_origins = LinesField(
        required=False, help_text="Publishable keys work from these pages only. One a line, like https://shop.example"
    )
    scopes = ScopesField(
        required=False, initial=usual_scopes, help_text="What a secret key may do. A publishable key may only rate."
    )

    class Meta:
        model = ApiKey
        fields = ["name", "kind", "agent", "allowed_origins", "needs_tokens", "scopes", "expires_at"]


@admin.register(ApiKey)
class ApiKeyAdmin(admin.ModelAdmin):
    """The digest is shown nowhere, and the key itself once, right after it was made."""

    form = ApiKeyForm
    list_display = ["name", "kind", "may", "start", "agent", "created_at", "last_used_at", "expires_at", "revoked_at"]
    list_filter = ["kind", ("revoked_at", admin.EmptyFieldListFilter), "agent"]
    list_select_related = ["agent"]
    search_fields = ["name", "^start"]
    show_full_result_count = False
    actions = ["revoke"]

    def get_fields(self, request: HttpRequest, obj: ApiKey | None = None) -> Any:
        shown = ["start", "created_at", "last_used_at", "revoked_at"] if obj else []
        return ["name", "kind", "agent", "scopes", "allowed_origins", "needs_tokens", "expires_at", *shown]

    def get_readonly_fields(self, request: HttpRequest, obj: ApiKey | None = None) -> list[str]:
        """What a key may do is fixed when it is made; only its name, its origins and its need for tokens change later."""
        shown = ["kind", "agent", "scopes", "expires_at", "start", "created_at", "last_used_at", "revoked_at"]
        return shown if obj else []

    may = column("may", lambda key: ", ".join(key.scopes) or "rate")

    def save_model(self, request: HttpRequest, obj: ApiKey, form: ModelForm[Any], change: bool) -> None:
        if change:
            super().save_model(request, obj, form, change)
            return
        key = obj.issue()
        text = format_html('Copy the key now, it is not shown again: <code class="new-key">{}</code>', key)
        messages.success(request, text)

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """A revoked row still tells who sent what."""
        return False

    @admin.action(description="Revoke the selected keys", permissions=["change"])
    def revoke(self, request: HttpRequest, queryset: QuerySet[ApiKey]) -> None:
        keys = list(queryset.filter(revoked_at__isnull=True))
        for key in keys:
            revoke(key)
            self.log_change(request, key, "Revoked.")
        messages.success(request, f"{len(keys)} keys revoked.")


@admin.register(AccessAttempt)
class AccessAttemptAdmin(ReadOnlyAdmin):
    """Wrong passwords of the last quarter of an hour. ``manage.py axes_reset_username NAME`` ends a lock."""

    list_display = ["username", "ip_address", "failures_since_start", "attempt_time", "path_info"]
    search_fields = ["=username", "=ip_address"]
    fields = ["username", "ip_address", "failures_since_start", "attempt_time", "path_info", "user_agent"]
