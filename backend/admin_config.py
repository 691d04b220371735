"""Django's admin with the list of records in groups."""

from __future__ import annotations

from django.contrib.admin.apps import AdminConfig


class RatchetAdminConfig(AdminConfig):
    default = False
    default_site = "backend.admin_site.RatchetAdminSite"
