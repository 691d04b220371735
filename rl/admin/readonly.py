"""Records of what happened are looked at, not edited."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.http import HttpRequest


class ReadOnly:
    """For a ModelAdmin or an inline: nobody adds, changes or deletes through it, whatever he may do elsewhere."""

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


class ReadOnlyAdmin(ReadOnly, admin.ModelAdmin):
    show_full_result_count = False
    list_per_page = 50


class ReadOnlyInline(ReadOnly, admin.TabularInline):
    extra = 0
    template = "admin/rl/readonly_inline.html"

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        """All: Django asks for this even where nobody may change anything."""
        return self.fields or []
