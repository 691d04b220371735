"""Failed sign-ins."""

from __future__ import annotations

from axes.models import AccessAttempt
from django.contrib import admin

from rl.admin.readonly import ReadOnlyAdmin


@admin.register(AccessAttempt)
class AccessAttemptAdmin(ReadOnlyAdmin):
    """Wrong passwords of the last quarter of an hour. ``manage.py axes_reset_username NAME`` ends a lock."""

    list_display = ["username", "ip_address", "failures_since_start", "attempt_time", "path_info"]
    search_fields = ["=username", "=ip_address"]
    fields = ["username", "ip_address", "failures_since_start", "attempt_time", "path_info", "user_agent"]
